"""--weights: which tensors of the files are the model's."""

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import MODELS, Outcome, ROOT, call, check_call, encode_model

FLAGS = ["--loss", "cross_entropy", "--optimizer", "sgd", "--lr", 0, "--weight-decay", 0, "--devices", 1]


@pytest.fixture(scope="module")
def original() -> dict[str, numpy.ndarray]:
    """The MLP's weights by the names of its file, fc1.weight to fc3.bias."""
    weights = load_file(MODELS / "mlp.adamw.final.safetensors")
    return {name: value + 1 for name, value in weights.items()}


def compile_with(folder, weights, *flags) -> Outcome:
    return call("dtc", "compile", MODELS / "mlp.onnx", *FLAGS, "--weights", weights, *flags, "-o",
                folder / "mlp.dtc")


def weights_of_a_run(folder) -> dict[str, numpy.ndarray]:
    check_call("dtc-run", folder / "mlp.dtc", "--data", MODELS / "mlp.data.safetensors", "--steps", 1,
               "--save-weights", folder / "saved.safetensors")
    return load_file(folder / "saved.safetensors")


@pytest.mark.parametrize("prefix", ["", "model.", "module.net."])
def test_files_may_have_a_prefix(tmp_path, original, prefix):
    save_file({prefix + name: value for name, value in original.items()}, tmp_path / "w.safetensors")
    assert compile_with(tmp_path, tmp_path / "w.safetensors").code == 0
    saved = weights_of_a_run(tmp_path)
    assert all(numpy.array_equal(saved[name], value) for name, value in original.items())


def test_the_model_may_have_a_prefix(tmp_path):
    """GPT-2's own checkpoint says wte.weight for what the export calls m.transformer.wte.weight."""
    weights = {name.removeprefix("transformer."): value
               for name, value in load_file(MODELS / "gpt2.safetensors").items()}
    assert "wte.weight" in weights
    save_file(weights, tmp_path / "w.safetensors")
    check_call("dtc", "compile", MODELS / "gpt2_b1.onnx", *FLAGS, "--global-batch", 2, "--weights",
               tmp_path / "w.safetensors", "-o", tmp_path / "m.dtc")


def test_an_index_names_the_files(tmp_path, original):
    names = sorted(original)
    parts = {"a.safetensors": names[:3], "b.safetensors": names[3:]}
    for file, own in parts.items():
        save_file({name: original[name] for name in own}, tmp_path / file)
    save_file({"fc1.weight": original["fc1.weight"] * 0}, tmp_path / "unnamed.safetensors")
    entries = ", ".join(f'"{name}": "{file}"' for file, own in parts.items() for name in own)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(f'{{"weight_map": {{{entries}}}}}')
    for weights in (tmp_path, index):
        assert compile_with(tmp_path, weights).code == 0
        saved = weights_of_a_run(tmp_path)
        (tmp_path / "saved.safetensors").unlink()
        assert all(numpy.array_equal(saved[name], value) for name, value in original.items())


def test_what_the_files_lack_is_said(tmp_path, original):
    """A model with data of its own keeps it where a file has none."""
    left = {name: value for name, value in original.items() if name != "fc2.bias"}
    save_file(left, tmp_path / "w.safetensors")
    outcome = compile_with(tmp_path, tmp_path / "w.safetensors")
    assert outcome.code == 0
    assert "warning" in outcome.err and "w.safetensors" in outcome.err and "fc2.bias" in outcome.err
    assert "fc1" not in outcome.err
    saved = weights_of_a_run(tmp_path)
    assert numpy.array_equal(saved["fc1.bias"], original["fc1.bias"])
    assert not numpy.array_equal(saved["fc2.bias"], original["fc2.bias"])


def test_exact_names_come_before_guessed_ones(tmp_path, original):
    """A checkpoint with averaged weights beside the weights: these are read, though they lack one."""
    arrays = {"ema." + name: value * 0 for name, value in original.items()}
    arrays |= {name: value for name, value in original.items() if name != "fc2.bias"}
    save_file(arrays, tmp_path / "w.safetensors")
    outcome = compile_with(tmp_path, tmp_path / "w.safetensors")
    assert outcome.code == 0
    kept, unread = outcome.err.splitlines()
    assert "lacks" in kept and kept.endswith(": fc2.bias")
    assert "not read" in unread and unread.count("ema.") == len(original)
    saved = weights_of_a_run(tmp_path)
    assert all(numpy.array_equal(saved[name], value) for name, value in original.items() if name != "fc2.bias")


def test_what_the_model_lacks_is_said(tmp_path, original):
    extra = {f"extra{i:02}.weight": numpy.ones(3, numpy.float32) for i in range(20)}
    save_file(original | extra, tmp_path / "w.safetensors")
    outcome = compile_with(tmp_path, tmp_path / "w.safetensors")
    assert outcome.code == 0
    [line] = outcome.err.splitlines()
    assert "w.safetensors" in line and "extra00.weight" in line and line.endswith("and 12 more")


def test_a_tied_weight_is_one(tmp_path):
    """A file may have both names of it, with the same elements."""
    weights = load_file(MODELS / "gpt2.safetensors")
    flags = ["dtc", "compile", MODELS / "gpt2_b1.onnx", *FLAGS, "--global-batch", 2, "--weights",
             tmp_path / "w.safetensors", "-o", tmp_path / "m.dtc"]
    for factor, code in ((1, 0), (2, 3)):
        head = {"lm_head.weight": weights["transformer.wte.weight"] * numpy.float32(factor)}
        save_file(weights | head, tmp_path / "w.safetensors")
        outcome = call(*flags)
        assert outcome.code == code, outcome.err
    assert "lm_head.weight" in outcome.error_line() and "wte.weight" in outcome.error_line()


def test_files_of_another_model_are_refused(tmp_path):
    outcome = compile_with(tmp_path, MODELS / "llama.data.safetensors")
    assert outcome.code == 3 and "has no tensor of the model" in outcome.error_line()
    assert not list(tmp_path.iterdir())


def test_what_has_no_data_may_be_drawn(tmp_path):
    """A checkpoint without a head, and --init for what is missing."""
    weights = load_file(MODELS / "gpt2.safetensors")
    del weights["transformer.ln_f.weight"]
    save_file(weights, tmp_path / "w.safetensors")
    flags = ["dtc", "compile", MODELS / "gpt2_b1.onnx", *FLAGS, "--global-batch", 2, "--weights",
             tmp_path / "w.safetensors", "-o", tmp_path / "m.dtc"]
    outcome = call(*flags)
    assert outcome.code == 3 and "ln_f.weight" in outcome.error_line()
    drawn = check_call(*flags, "--init")
    assert "drawn at random" in drawn.err and "ln_f.weight" in drawn.err


META = """ir_version: 9 opset_import { version: 18 }
graph { name: "meta"
  node { op_type: "MatMul" input: "x" input: "w" output: "h" } node { op_type: "Add" input: "h" input: "inv_freq" output: "y" }
  input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 4 } } } } }
  input { name: "w" type { tensor_type { elem_type: 1 shape { dim { dim_value: 4 } dim { dim_value: 4 } } } }
    metadata_props { key: "pkg.torch.export.graph_signature.InputSpec.kind" value: "PARAMETER" } }
  input { name: "inv_freq" type { tensor_type { elem_type: 1 shape { dim { dim_value: 4 } } } }
    metadata_props { key: "pkg.torch.export.graph_signature.InputSpec.kind" value: "BUFFER" } }
  output { name: "y" } }
"""


def test_what_init_cannot_draw_names_the_way_out(tmp_path):
    """Angles of positions are buffers that no state_dict has."""
    model = encode_model(META, tmp_path / "meta.onnx")
    outcome = call("dtc", "compile", model, *FLAGS, "--init", "-o", tmp_path / "m.dtc")
    line = outcome.error_line()
    assert outcome.code == 3 and "meta.onnx: buffer 'inv_freq' has no data" in line, line
    assert "export the module with data" in line and "--weights" in line


def test_each_rank_draws_its_part_of_what_one_draws(tmp_path):
    """One rank draws a whole weight on several threads; of two, each draws pieces of its rows."""
    weights = load_file(MODELS / "gpt2.safetensors")
    name = "transformer.h.0.mlp.c_fc.weight"
    assert weights.pop(name).size >= 2**14
    save_file(weights, tmp_path / "w.safetensors")
    drawn = []
    for devices in (1, 2):
        check_call("dtc", "compile", MODELS / "gpt2_b1.onnx", *FLAGS[:-1], devices, "--global-batch", 2, "--weights",
                   tmp_path / "w.safetensors", "--init", "--plan", f"tp={devices}", "-o", tmp_path / "m.dtc")
        check_call("dtc-run", tmp_path / "m.dtc", "--data", MODELS / "gpt2.data.safetensors", "--steps", 1, "--save-weights",
                   tmp_path / "drawn.safetensors")
        drawn.append(load_file(tmp_path / "drawn.safetensors")[f"m.{name}"])
    assert (drawn[0] == drawn[1]).all()
    assert 0.9 < drawn[0].std() / 0.02 < 1.1 and len(set(drawn[0].flatten().tolist())) > drawn[0].size / 2


def test_files_are_referred_to(tmp_path, original):
    """Neither safetensors nor external data are copied, unless asked for."""
    weights = tmp_path / "w.safetensors"
    save_file(original, weights)
    sizes = []
    for flags in ([], ["--embed-weights"]):
        assert compile_with(tmp_path, weights, *flags).code == 0
        sizes.append((tmp_path / "mlp.dtc").stat().st_size)
        run = call("dtc-run", tmp_path / "mlp.dtc", "--data", MODELS / "mlp.data.safetensors", "--steps", 1)
        assert run.code == 0
    assert sizes[1] - sizes[0] > 0.9 * sum(value.nbytes for value in original.values())
    assert compile_with(tmp_path, weights).code == 0
    save_file({name: value * 2 for name, value in original.items()}, weights)
    run = call("dtc-run", tmp_path / "mlp.dtc", "--data", MODELS / "mlp.data.safetensors", "--steps", 1)
    assert run.code == 3 and "not the file of compile time" in run.error_line()


@pytest.mark.parametrize("flags", [[], ["--embed-weights"]])
def test_external_data_from_elsewhere(tmp_path, flags):
    """Data lies beside the model, wherever the command is given from, and a file of that name there isn't it."""
    text = (ROOT / "test/Import/Inputs/external.txtpb").read_text()
    text = text.replace("LOCATION", "./weights.bin")
    model, here, out = tmp_path / "model", tmp_path / "here", tmp_path / "out"
    for folder in (model, here, out):
        folder.mkdir()
    encode_model(text.replace("OFFSET", "0").replace("LENGTH", "32"), model / "m.onnx")
    values = numpy.arange(10, dtype=numpy.float32)
    (model / "weights.bin").write_bytes(values.tobytes())
    (here / "weights.bin").write_bytes((values + 1).tobytes())
    for given in (model / "m.onnx", "../model/m.onnx"):
        check_call("dtc", "compile", given, "--loss", "mse", "--lr", 0, "--weight-decay", 0, *flags, "-o",
                   out / "m.dtc", cwd=here)
        save_file({"x": numpy.ones((4, 4), numpy.float32), "target": numpy.ones((4, 2), numpy.float32)},
                  out / "data.safetensors")
        check_call("dtc-run", out / "m.dtc", "--data", out / "data.safetensors", "--steps", 1,
                   "--save-weights", out / "saved.safetensors", cwd=tmp_path)
        saved = load_file(out / "saved.safetensors")
        assert numpy.array_equal(numpy.concatenate([saved["w"].flatten(), saved["b"]]), values)
