"""Wrong inputs end with the documented exit code, one clear line and nothing half-written."""

import hashlib
import json
import os
import pathlib
import stat
import struct
import subprocess
import zipfile

import numpy
import pytest
from safetensors.numpy import load_file, save_file

from conftest import BIN, MODELS, ROOT, Outcome, call, check_call, encode_model

COMPILE = ["--devices", 1, "--loss", "cross_entropy", "--global-batch", 8]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("good") / "mlp.dtc"
    check_call("dtc", "compile", MODELS / "mlp.onnx", *COMPILE, "-o", path)
    return path


def refused(outcome, code: int, *words: str) -> None:
    assert outcome.code == code, outcome.err
    line = outcome.error_line()
    for word in words:
        assert word in line, line


@pytest.mark.parametrize("keep", [0, 1, 100, 20000])
def test_truncated_model(tmp_path, keep):
    model, out = tmp_path / "cut.onnx", tmp_path / "out.dtc"
    model.write_bytes((MODELS / "mlp.onnx").read_bytes()[:keep])
    refused(call("dtc", "compile", model, *COMPILE, "-o", out), 3, "cut.onnx")
    assert list(tmp_path.iterdir()) == [model]


def test_missing_model(tmp_path):
    refused(call("dtc", "compile", tmp_path / "none.onnx", *COMPILE, "-o", tmp_path / "o"), 3,
            "none.onnx")


@pytest.mark.parametrize("flags,words", [
    (["--optimzer", "adam"], ["--optimzer", "--optimizer"]),
    (["--optimizer", "adm"], ["--optimizer", "adm"]),
    (["--betas", "0.9"], ["--betas"]),
    (["--plan", "dp=3"], ["3"]),
    (["--plan", "dq=1"], ["dq", "dp"]),
    (["--micro-batch", "0"], ["--micro-batch"]),
    (["--threads-per-rank", "0"], ["--threads-per-rank", "between 1"]),
    (["--threads-per-rank", "100000"], ["--threads-per-rank", "100000"]),
    (["--lr-schedule", "cosine"], ["--total-steps"]),
    (["--min-lr", "0.1"], ["--min-lr exceeds --lr"]),
    (["--lr", "inf"], ["--lr", "finite"]),
    (["--min-lr", "nan"], ["--min-lr", "finite"]),
    (["--eps", "-1"], ["--eps", "finite"]),
    (["--weight-decay", "1e400"], ["--weight-decay", "finite"]),
    (["--optimizer", "sgd", "--momentum", "inf"], ["--momentum", "finite"]),
    (["--clip-grad-norm", "inf"], ["--clip-grad-norm", "finite"]),
])
def test_usage_errors(tmp_path, flags, words):
    refused(call("dtc", "compile", MODELS / "mlp.onnx", *COMPILE, "-o", tmp_path / "o", *flags), 2,
            *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["--lora", "--freeze", "--weights", "--config"])
def test_flags_of_nothing_count_as_given(tmp_path, flag):
    """As a script gives them whose variable isn't set. All weights would train then."""
    refused(call("dtc", "compile", MODELS / "mlp.onnx", *COMPILE, "-o", tmp_path / "o", flag, ""), 2, flag, "''")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["--save-weights", "--checkpoint-dir", "--eval-data", "--data"])
def test_flags_of_nothing_count_as_given_to_a_run(artifact, flag):
    refused(call("dtc-run", artifact, "--data", MODELS / "mlp.data.safetensors", f"{flag}="), 2, flag)


@pytest.mark.parametrize("variable,value,words", [
    ("DTC_COLLECTIVES", "later", "expected start, wait or thread, got 'later'"),
    ("DTC_CUBLASLT_EPILOGUES", "maybe", "expected 0 or 1, got 'maybe'"),
    ("DTC_CALIBRATION", "no", "expected off or a file, got 'no'"),
])
def test_unknown_values_of_variables(artifact, tmp_path, monkeypatch, variable, value, words):
    monkeypatch.setenv(variable, value)
    for command in (["dtc", "plan", MODELS / "mlp.onnx"], ["dtc", "inspect", artifact],
                    ["dtc-run", artifact, "--data", MODELS / "mlp.data.safetensors", "--processes"]):
        refused(call(*command, cwd=tmp_path), 2, f"{variable}: {words}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", [["--verify", "--no-verify"], ["--no-verify", "--verify"], ["--verify=false", "--verify"]])
def test_a_flag_that_contradicts_itself(tmp_path, flags):
    refused(call("dtc", "compile", MODELS / "mlp.onnx", *COMPILE, "-o", tmp_path / "o", *flags), 2, "--verify and --no-verify")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments,words", [
    ([], ["a command is required", "compile, plan"]),
    (["complie", "m.onnx"], ["unknown command complie", "compile"]),
    (["frobnicate"], ["unknown command frobnicate", "calibrate"]),
])
def test_unknown_commands(arguments, words):
    refused(call("dtc", *arguments), 2, *words)


@pytest.mark.parametrize("arguments,words", [
    (["plan", MODELS / "mlp.onnx", "--compare", "dp=1"], "--compare: expected 2 values"),
    (["plan", MODELS / "mlp.onnx", "--compare", "dp=1", "dp=2", "dp=4"], "--compare: expected 2 values"),
    (["plan", MODELS / "mlp.onnx", "--json=perhaps"], "--json: expected no value, got 'perhaps'"),
    (["calibrate", "--outptu", "c.yaml"], "unknown flag --outptu (did you mean --output?)"),
    (["inspect"], "artifact is required"),
])
def test_flags_with_other_values_than_they_take(arguments, words):
    refused(call("dtc", *arguments), 2, words)


def test_merged_initializers_are_refused_for_training_alone(tmp_path):
    text = (ROOT / "test/Import/Inputs/merged.txtpb").read_text()
    model = encode_model(text, tmp_path / "m.onnx")
    flags = [model, "--devices", 1, "--loss"]
    refused(call("dtc", "compile", *flags, "mse", "-o", tmp_path / "o"), 3, "one tensor", "ones")
    for outcome in (call("dtc", "plan", *flags, "mse", "--json"),
                    call("dtc", "compile", *flags, "none", "-o", tmp_path / "o")):
        assert outcome.code == 0 and "warning" in outcome.err and "one tensor" in outcome.err
    assert call("dtc", "compile", *flags, "mse", "--allow-merged", "-o", tmp_path / "o").err == ""


def test_loss_is_required(tmp_path):
    refused(call("dtc", "compile", MODELS / "mlp.onnx", "-o", tmp_path / "o"), 2, "--loss")


@pytest.mark.parametrize("command", [["compile"], ["compile", "--loss", "what"], ["plan", "--cluster", "none"], ["estimate"]])
def test_a_missing_model_is_the_first_cause(command):
    refused(call("dtc", *command, "nofile.onnx"), 3, "nofile.onnx: cannot read the model: cannot open: No such file")


def test_weightless_model_needs_weights(tmp_path):
    refused(call("dtc", "compile", MODELS / "gpt2_b1.onnx", *COMPILE, "-o", tmp_path / "o"), 3,
            "--weights")


def run_with(artifact, tmp_path, change):
    data = load_file(MODELS / "mlp.data.safetensors")
    change(data)
    path = tmp_path / "data.safetensors"
    save_file(data, path)
    return call("dtc-run", artifact, "--data", path, "--steps", 1, "--no-shuffle")


def test_missing_array(artifact, tmp_path):
    refused(run_with(artifact, tmp_path, lambda data: data.pop("target")), 3, "data.safetensors",
            "target")


def test_wrong_shape(artifact, tmp_path):
    def change(data):
        name = next(name for name in data if name != "target")
        data[name] = numpy.ascontiguousarray(data[name][:, :5])
    refused(run_with(artifact, tmp_path, change), 3, "data.safetensors", "5")


def test_wrong_dtype(artifact, tmp_path):
    def change(data):
        data["target"] = data["target"].astype(numpy.float32)
    refused(run_with(artifact, tmp_path, change), 3, "data.safetensors", "target", "F32")


def test_target_out_of_range(artifact, tmp_path):
    def change(data):
        data["target"][3] = 10
    refused(run_with(artifact, tmp_path, change), 3, "data.safetensors", "target", "10")


@pytest.mark.parametrize("keep", [0, 10, 1000, -1])
def test_truncated_artifact(artifact, tmp_path, keep):
    path = tmp_path / "cut.dtc"
    path.write_bytes(artifact.read_bytes()[:keep])
    refused(call("dtc-run", path, "--data", MODELS / "mlp.data.safetensors"), 3, "cut.dtc")


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_flipped_bit(artifact, tmp_path, part):
    """Wherever a bit flips in a member, it is noticed; in padding it may not matter."""
    content = bytearray(artifact.read_bytes())
    position = int(len(content) * part)
    while content[position] == 0:
        position += 1
    content[position] ^= 0x10
    path = tmp_path / "flipped.dtc"
    path.write_bytes(content)
    refused(call("dtc-run", path, "--data", MODELS / "mlp.data.safetensors"), 3, "flipped.dtc")


def test_unknown_run_flag(artifact):
    refused(call("dtc-run", artifact, "--dta", "x"), 2, "--dta", "--data")


def test_a_time_limit_is_a_number(artifact):
    refused(call("dtc-run", artifact, "--data", MODELS / "mlp.data.safetensors", "--timeout", "nan"), 2, "--timeout")


def test_data_of_too_few_samples(artifact, tmp_path):
    def change(data):
        for name in data:
            data[name] = data[name][:3]
    refused(run_with(artifact, tmp_path, change), 3, "data.safetensors", "3")


@pytest.mark.parametrize("pin,message", [("cp=3", "not a multiple of cp: 3; on 3 devices cp can be 1"), ("ep=3", "ep doesn't divide the 4 experts: 3")])
def test_rows_that_ranks_cannot_share_evenly_are_refused(tmp_path, pin, message):
    arguments = ["compile", MODELS / "mixtral.onnx", "--devices", 3, "--loss", "cross_entropy", "--plan", pin, "-o", "m.dtc"]
    outcome = call("dtc", *arguments, cwd=tmp_path)
    refused(outcome, 4)
    assert outcome.error_line().endswith(message), outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["bert", "gpt2_mask", "mistral"])
def test_a_ring_that_no_keys_go_round_is_refused(tmp_path, model):
    arguments = ["compile", MODELS / f"{model}.onnx", "--devices", 2, "--loss", "cross_entropy", "--plan", "cp=2,cp_by=ring",
                 "-o", "m.dtc"]
    refused(call("dtc", *arguments, cwd=tmp_path), 4, "no attention can pass its keys on")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("model,plan,message", [
    ("llama", "cp=4,cp_by=heads", "cp can't divide the heads of dtc.attention (node_scaled_dot_product_attention), of which there are 2 x 2"),
    ("resnet_tiny", "cp=2,cp_by=heads", "nothing carries a sequence")])
@pytest.mark.parametrize("command", ["plan", "compile"])
def test_heads_that_ranks_cannot_share_are_refused(tmp_path, command, model, plan, message):
    """Four ranks, and two heads of keys with two of queries each: keys aren't gathered instead."""
    arguments = [MODELS / f"{model}.onnx", "--devices", plan[3], "--loss", "cross_entropy", "--plan", plan]
    written = ["-o", "m.dtc"] if command == "compile" else []
    refused(call("dtc", command, *arguments, *written, cwd=tmp_path), 4, message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number,name", [(11, "f64")])
def test_element_types_without_products(tmp_path, number, name):
    """oneDNN doesn't multiply it: refused at the node, before anything is planned, in one line without the IR."""
    text = (ROOT / "test/Import/Inputs/element_type.txtpb").read_text()
    text = text.replace("DATA", "").replace("TYPE", str(number))
    text = text.replace('input: "w"', 'input: "twice"').replace("dim_value: 4 }", "dim_value: 4 } "
                                                               "dim { dim_value: 2 }")
    text = "\n".join(line for line in text.splitlines() if "initializer" not in line)
    model = encode_model(text, tmp_path / "m.onnx")
    outcome = call("dtc", "compile", model, "--devices", 1, "--loss", "none", "-o", tmp_path / "o")
    refused(outcome, 3, "m.onnx", "product", name)
    assert len(outcome.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [model]
    planned = call("dtc", "plan", model, "--devices", 1, "--loss", "none")
    assert planned.code == 0, planned.err


@pytest.mark.parametrize("numbers", ["2.5, 2", "nan, 2", "1e30, 2"])
def test_sizes_that_are_no_whole_numbers(tmp_path, numbers):
    sizes = "".join(f" floats: {number}" for number in numbers.split(", "))
    model = encode_model(f"""ir_version: 9 opset_import {{ version: 20 }} graph {{ name: "m"
      node {{ op_type: "Constant" output: "sizes" attribute {{ name: "value_floats" type: FLOATS{sizes} }} }}
      node {{ name: "turn" op_type: "Reshape" input: "x" input: "sizes" output: "y" }}
      input {{ name: "x" type {{ tensor_type {{ elem_type: 1 shape {{ dim {{ dim_value: 4 }} }} }} }} }}
      output {{ name: "y" type {{ tensor_type {{ elem_type: 1 }} }} }} }}""", tmp_path / "m.onnx")
    refused(call("dtc", "plan", model, "--devices", 1, "--loss", "none"), 3, "node turn (Reshape)", "whole numbers")


def test_outputs_that_are_not_of_samples(tmp_path):
    text = (ROOT / "test/Import/Inputs/output_of_weights.txtpb").read_text()
    model = encode_model(text, tmp_path / "m.onnx")
    refused(call("dtc", "compile", model, "--devices", 1, "--loss", "none", "-o", tmp_path / "o"), 3,
            "m.onnx", "'transposed'", "4 samples", "tensor<3x2xf32>")
    assert list(tmp_path.iterdir()) == [model]


def test_devices_are_never_replaced(tmp_path):
    """As root a rename over /dev/null would succeed."""
    model = MODELS / "mlp.onnx"
    refused(call("dtc", "compile", model, *COMPILE, "-o", "/dev/null"), 1, "/dev/null")
    check_call("dtc", "plan", model, "--save-plan", "/dev/null")
    emitted = check_call("dtc", "compile", model, "--loss", "none", "--emit", "import", "-o",
                         "/dev/stdout")
    assert emitted.out.startswith("module")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("command", [["plan", "--json"], ["compile", "--loss", "none", "--emit", "import"]])
def test_results_that_cannot_be_written(command):
    """As of a disk that is full: nobody takes what is left for the results."""
    arguments = [BIN / "dtc", command[0], MODELS / "mlp.onnx", *command[1:]]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True)
    refused(Outcome(done.returncode, "", done.stderr), 1, "stdout: cannot write the results")


def test_missing_weights_are_found_before_planning(tmp_path):
    outcome = call("dtc", "compile", MODELS / "gpt2_b1.onnx", "--devices", 2, "--plan", "dp=1,tp=1,pp=2",
                   "--loss", "cross_entropy", "-o", tmp_path / "o")
    refused(outcome, 3, "--weights")


def test_senseless_numbers_of_devices(tmp_path):
    for number in ("9" * 18, str((1 << 20) + 1)):
        refused(call("dtc", "plan", MODELS / "mlp.onnx", "--devices", number), 2, "between 1 and 1048576", number)
    # The most that are allowed.
    outcome = call("dtc", "plan", MODELS / "mlp.onnx", "--devices", 1 << 20, "--loss", "cross_entropy", "--global-batch", 8, "--plan", "dp=2")
    assert outcome.code == 0 and "1048576 x cpu" in outcome.out and "ranks repeat each other's work" in outcome.err


@pytest.fixture
def rewritten(artifact, tmp_path):
    """Writes the artifact with another manifest, and hashes that fit."""
    def rewrite(change) -> pathlib.Path:
        with zipfile.ZipFile(artifact) as file:
            members = {name: file.read(name) for name in file.namelist()}
        manifest = json.loads(members["manifest.json"])
        change(manifest)
        members["manifest.json"] = json.dumps(manifest).encode()
        path = tmp_path / "rewritten.dtc"
        with path.open("wb") as stream, zipfile.ZipFile(stream, "w") as file:
            for name, content in members.items():
                info = zipfile.ZipInfo(name)
                padding = -(stream.tell() + 30 + len(name) + 4) % 64  # members are aligned
                info.extra = struct.pack("<HH", 0xD935, padding) + bytes(padding)
                file.writestr(info, content)
            file.comment = hashlib.sha256(members["manifest.json"]).hexdigest().encode()
        return path
    return rewrite


@pytest.mark.parametrize("key", ["processor", "plan", "library_calls"])
def test_inspect_needs_the_whole_manifest(rewritten, key):
    path = rewritten(lambda manifest: manifest.pop(key))
    refused(call("dtc", "inspect", path, "--json"), 3, "rewritten.dtc", "manifest.json", key)
    check_call("dtc", "inspect", rewritten(lambda manifest: None))


def test_manifest_with_an_impossible_rank(rewritten):
    def change(manifest):
        manifest["roles"][0]["ranks"].append(1 << 20)
    refused(call("dtc-run", rewritten(change), "--data", MODELS / "mlp.data.safetensors"), 3,
            "manifest.json", str(1 << 20))


def test_manifest_with_an_input_twice(rewritten):
    def change(manifest):
        manifest["inputs"].append(manifest["inputs"][0])
    refused(call("dtc-run", rewritten(change), "--data", MODELS / "mlp.data.safetensors"), 3,
            "manifest.json", "twice")


@pytest.mark.parametrize("missing", ["norm.bias", "target"])
def test_plan_that_forgets_an_argument(tmp_path, missing):
    plan, edited = tmp_path / "plan.yaml", tmp_path / "edited.yaml"
    job = [MODELS / "mlp.onnx", "--devices", 2, "--global-batch", 8]
    check_call("dtc", "plan", *job, "--plan", "tp=2", "--save-plan", plan)
    lines = plan.read_text().splitlines(keepends=True)
    edited.write_text("".join(l for l in lines if f"{{name: {missing}," not in l))
    assert len(edited.read_text().splitlines()) == len(lines) - 1
    refused(call("dtc", "plan", *job, "--plan", edited), 3, missing)


def test_many_faults_of_a_plan_are_one_line(tmp_path):
    plan, edited = tmp_path / "plan.yaml", tmp_path / "edited.yaml"
    job = [MODELS / "mlp.onnx", "--devices", 2, "--global-batch", 8]
    check_call("dtc", "plan", *job, "--plan", "tp=2", "--save-plan", plan)
    lines = plan.read_text().splitlines(keepends=True)
    edited.write_text("".join(l for l in lines if "kind: parameter" not in l))
    refused(call("dtc", "plan", *job, "--plan", edited), 3, "more)")


@pytest.mark.parametrize("said, words", [
    ("zero: 0/zero: 3", "plan says zero=3, its storage is that of zero=0"),
    ("recompute: none/recompute: full", "plan says recompute=full, its blocks have none"),
    ("dp: 2/dp: 99999999999", "dp is out of range: 99999999999"),
    ("dp: 2/dp: 4", "made for another number of devices than 4"),
])
def test_plan_whose_degrees_say_something_else(tmp_path, said, words):
    """What a plan file says of itself is what it does: nothing is predicted for what it isn't."""
    plan = tmp_path / "plan.yaml"
    job = [MODELS / "llama.onnx", "--devices", 4, "--loss", "cross_entropy", "--global-batch", 8]
    check_call("dtc", "plan", *job, "--plan", "dp=2,tp=2", "--save-plan", plan)
    before, after = said.split("/")
    text = plan.read_text()
    assert before in text
    plan.write_text(text.replace(before, after, 1))
    refused(call("dtc", "plan", *job, "--plan", plan), 2 if "devices" in words else 3, words)


@pytest.mark.parametrize("pin", ["zero=1", "zero=2", "zero=3", "recompute=full", "offload=optimizer"])
def test_settings_of_training_where_nothing_trains(tmp_path, pin):
    """No gradients or states are stored: there is nothing to share, to compute again, or to keep elsewhere."""
    job = [MODELS / "mlp.onnx", "--devices", 2, "--global-batch", 8]
    compiled = ["compile", *job, "-o", tmp_path / "m.dtc"]
    said = f"{pin} is for training, not for --loss none"
    for command in (["plan", *job], compiled):
        refused(call("dtc", *command, "--loss", "none", "--plan", f"dp=2,{pin}"), 2, said)
    plan, degrees = tmp_path / "plan.yaml", tmp_path / "degrees.yaml"
    check_call("dtc", "plan", *job, "--plan", f"dp=2,{pin}", "--save-plan", plan)
    degrees.write_text(plan.read_text().split("\nmesh:")[0] + "\n")
    for file in (plan, degrees):
        refused(call("dtc", *compiled, "--loss", "none", "--plan", file), 2, f"{file}: {said}")
    check_call("dtc", *compiled, "--loss", "none", "--plan", "dp=2,zero=0,recompute=none,offload=none")


def test_cluster_of_too_few_devices(tmp_path):
    cluster = tmp_path / "small.yaml"
    cluster.write_text("device: a100-80\nnodes: 1\ndevices_per_node: 8\nintra_node: {bandwidth_gbs: 300}\n")
    refused(call("dtc", "plan", MODELS / "mlp.onnx", "--gpus", 16, "--cluster", cluster), 2,
            "has 8 devices", "16")
    cluster.write_text(cluster.read_text().replace("nodes: 1", f"nodes: {2**62}"))
    refused(call("dtc", "plan", MODELS / "mlp.onnx", "--gpus", 16, "--cluster", cluster), 3,
            "small.yaml:2", "nodes is too large")


def test_folders_and_empty_files(tmp_path):
    folder, empty = tmp_path / "folder.yaml", tmp_path / "empty.yaml"
    folder.mkdir()
    empty.touch()
    plan = ["dtc", "plan", MODELS / "mlp.onnx", "--gpus", 8, "--loss", "cross_entropy"]
    for flag, what in (("--config", "configuration"), ("--plan", "plan"), ("--cluster", "cluster")):
        refused(call(*plan, flag, folder), 3, "folder.yaml", "cannot read", what)
    for flag in ("--plan", "--cluster"):
        refused(call(*plan, flag, empty), 3, "empty.yaml", "must be a map")
    refused(call("dtc", "plan", folder, "--gpus", 8), 3, "folder.yaml", "cannot read the model")


def test_keys_given_twice(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("global_batch: 64\nglobal-batch: 32\n")
    refused(call("dtc", "plan", MODELS / "mlp.onnx", "--gpus", 8, "--config", config), 3,
            "config.yaml:2: key is given twice: 'global-batch'")
    config.write_text("gpus: 8\n---\nloss: mse\n")
    refused(call("dtc", "plan", MODELS / "mlp.onnx", "--config", config), 3,
            "expected one YAML document, found a second one")


@pytest.mark.parametrize("text,line,words", [
    ("gpus: 8\nlr: fast\n", 2, "--lr"),
    ("gpus: eight\n", 1, "--gpus"),
    ("gpus: 8\noptimizer:\n  name: adamw\n  betas: [0.9, 2]\n", 4, "--betas: expected A,B"),
    ("gpus: 8\nprecision: int8\n", 2, "--precision: expected"),
    ("gpus: 8\nshape:\n- x=2x2\n- y\n", 3, "--shape: expected INPUT"),
    ("gpus: 8\nplan: dq=3\n", 2, "unknown key: dq"),
    ("gpus: 8\nplan: dp=3\n", 2, "doesn't divide the number of devices: 8"),
    ("gpus: 8\nmesh_shape: [[3], [tp]]\n", 2, "doesn't divide the number of devices: 8"),
    ("gpus: 8\nplan: micro_batch=4\nmicro_batch: 2\n", 3, "contradicts micro_batch=4"),
    ("gpus: 8\ndevices: 8\n", 1, "--gpus and --devices exclude each other"),
])
def test_wrong_values_of_a_configuration_are_told_with_their_line(tmp_path, text, line, words):
    config = tmp_path / "train.yaml"
    config.write_text(text)
    refused(call("dtc", "plan", MODELS / "mlp.onnx", "--config", config), 3, f"train.yaml:{line}: ", words)


def test_what_is_typed_is_not_told_as_configured(tmp_path):
    config = tmp_path / "train.yaml"
    config.write_text("gpus: 8\nlr: fast\n")
    typed = ["dtc", "plan", MODELS / "mlp.onnx", "--config", config, "--lr"]
    check_call(*typed, 0.1)
    outcome = call(*typed, "slow")
    refused(outcome, 2, "--lr")
    assert "train.yaml" not in outcome.error_line()


def test_messages_are_printable_and_short(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_bytes(b"de\x7fvi\xc2\x85c\xff\xfees: 2\n")
    refused(call("dtc", "plan", MODELS / "mlp.onnx", "--config", config), 3, "'de vi c??es'")
    config.write_text("x" * 1000 + ": 2\n")
    line = call("dtc", "plan", MODELS / "mlp.onnx", "--config", config).error_line()
    assert len(line) < 1000 and "xx ... xx" in line


def test_a_long_chain_between_experts(tmp_path):
    """No longer than the stack is deep: what happens to rows between two products is followed to its end."""
    length = 100_000
    nodes = ['node { op_type: "TopK" input: "x" input: "one" output: "values" output: "chosen" }',
             'node { op_type: "Gather" input: "experts" input: "chosen" output: "weights" }',
             'node { op_type: "Unsqueeze" input: "x" input: "places" output: "row" }',
             'node { op_type: "MatMul" input: "row" input: "weights" output: "t0" }']
    nodes += [f'node {{ op_type: "Tanh" input: "t{i}" output: "t{i + 1}" }}' for i in range(length)]
    nodes += [f'node {{ op_type: "MatMul" input: "t{length}" input: "weights" output: "y" }}']
    model = encode_model(f"""ir_version: 9 opset_import {{ version: 20 }}
        graph {{ name: "g" {" ".join(nodes)}
          initializer {{ name: "one" data_type: 7 dims: 1 int64_data: 1 }}
          initializer {{ name: "places" data_type: 7 dims: 2 int64_data: [1, 2] }}
          initializer {{ name: "experts" data_type: 1 dims: 2 dims: 2 dims: 2 float_data: [1, 2, 3, 4, 5, 6, 7, 8] }}
          input {{ name: "x" type {{ tensor_type {{ elem_type: 1 shape {{ dim {{ dim_value: 4 }} dim {{ dim_value: 2 }} }} }} }} }}
          output {{ name: "y" }} }}""", tmp_path / "m.onnx")
    raised = tmp_path / "raised.mlir"
    check_call("dtc", "compile", model, "--loss", "none", "--emit", "import", "-o", raised)
    text = raised.read_text()
    assert text.count("dtc.grouped_contract") == 2
    assert text.count("dtc.combine") == 1
