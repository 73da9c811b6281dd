"""One model, however it was exported: the same plan, the same prediction."""

import re

import pytest

import pairs
from conftest import BIN, MODELS, check_call

FILES = pairs.models(MODELS / "pairs")


@pytest.fixture(scope="module")
def eager(tmp_path_factory) -> str:
    """A cluster of PyTorch's eager programs."""
    path = tmp_path_factory.mktemp("cluster") / "eager.yaml"
    path.write_text(pairs.EAGER)
    return str(path)


@pytest.mark.parametrize("model", FILES)
@pytest.mark.parametrize("program", ["compiled", "eager"])
def test_halves_are_planned_as_fp32(model, program, eager):
    errors = pairs.compare(BIN / "dtc", FILES[model], "dgx-a100" if program == "compiled" else eager, batch=32)
    assert sorted(errors) == ["bf16", "fp16"]
    for seconds, size in errors.values():
        assert abs(seconds) < pairs.BOUND and abs(size) < pairs.BOUND


def graph_of(path) -> str:
    """The imported graph without the types that the file had, and numbers to three digits."""
    text = check_call("dtc", "compile", path, "--loss", "cross_entropy", "--emit=import").out
    text = re.sub(r"file tensor<([0-9x]*)x(bf16|f16)>", r"file tensor<\1xf32>", text)
    return re.sub(r"-?\d\.\d+(E[+-]\d+)?", lambda number: f"{float(number[0]):.3g}", text)


@pytest.mark.parametrize("model", FILES)
def test_halves_are_raised_to_the_same_ops(model):
    """Every export has the ops of the fp32 one, in number and types."""
    def ops(path):
        return sorted(re.findall(r"= ((?:dtc|arith|math)\.\w+).* : (.*)", graph_of(path)))

    wanted = ops(FILES[model]["fp32"])
    assert len(wanted) > 20
    for precision in ("bf16", "fp16"):
        assert ops(FILES[model][precision]) == wanted


@pytest.mark.parametrize("cluster", ["dgx-a100", "h100"])
def test_fp16_is_planned_like_bf16(cluster):
    plans = [pairs.predict(BIN / "dtc", FILES["gpt2-dynamo-sdpa-untied"]["fp32"], cluster, precision, batch=32)
             for precision in ("bf16", "fp16")]
    # But for the number that scales the loss.
    assert plans[0].parameters == plans[1].parameters and 0 <= plans[1].bytes - plans[0].bytes <= 64
    assert plans[0].seconds == pytest.approx(plans[1].seconds, rel=1e-8)
