"""Programs of several roles, written by hand: from the IR to ranks that send and receive."""

import numpy
from safetensors.numpy import load_file, save_file

from conftest import ROOT, call, check_call

PLAN = "builtin.module(builtin.module(dtc-plan-memory,dtc-verify-schedule)," \
       "test-write-package{{path={path} global-batch=12}})"


def weight(*shape: int) -> numpy.ndarray:
    """What test-write-package fills parameters with."""
    return ((numpy.arange(numpy.prod(shape)) % 9 - 4) / 8).reshape(shape).astype(numpy.float32)


def write(path, text: str):
    source = path.with_suffix(".mlir")
    source.write_text(text)
    return call("dtc-opt", source, f"--pass-pipeline={PLAN.format(path=path)}", "-o", "/dev/null")


def test_two_stages(tmp_path):
    artifact, data, out = (tmp_path / name for name in
                           ("model.dtc", "data.safetensors", "out.safetensors"))
    written = write(artifact, (ROOT / "test" / "Integration" / "two_roles.mlir").read_text())
    assert written.code == 0, written.err
    x = numpy.random.default_rng(1).standard_normal((24, 6)).astype(numpy.float32)
    save_file({"x": x}, data)
    check_call("dtc-run", artifact, "--data", data, "--outputs", out)
    got = load_file(out)["y"]
    want = numpy.exp(x.astype(float) @ weight(6, 8) @ weight(8, 5))
    assert got.shape == want.shape
    assert numpy.abs(got / want - 1).max() < 1e-5


def test_what_is_not_sent_is_noticed(tmp_path):
    """The replay of all roles together finds that a receive waits for ever."""
    text = (ROOT / "test" / "Integration" / "two_roles.mlir").read_text()
    lost = text.replace("      exec.call @forward microbatch 1 slot 0 outbox 1\n", "", 1)
    assert lost != text
    written = write(tmp_path / "model.dtc", lost)
    assert written.code != 0 and "error:" in written.err
    assert not (tmp_path / "model.dtc").exists()
