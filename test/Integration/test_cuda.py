"""Artifacts for GPUs: compiled on any machine, trained by the shipped dtc-run on an emulated GPU.

The emulator's libraries are found by DTC_CUDA_LIBRARY_PATH alone; losses and gradient norms are PyTorch's, as in
test_training.py.
"""

import json
import os
import pathlib
import re
import sysconfig
import zipfile

import numpy
import pytest
from safetensors.numpy import load_file, save_file

import llama_graph
from conftest import BIN, MODELS, ROOT, bare_environment, call, case, check_call, compare_steps, encode_model, first, reference
from test_eval import expect_next_losses
from test_eval_mode import DROPOUT, NORMS, compare, compile_to, evaluated
from test_memory import arena_bytes

PTXAS = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "ptxas"
EMULATOR = BIN.parent / "lib" / "gpu-emulator"
FEW = 5  # steps: an emulated GPU takes most of a test's time
CUDA = ["--target", "cuda"]
# check-threads instruments the runtime alone, and a program that isn't instrumented can't load libraries that are.
loaded_by_dtc = pytest.mark.skipif(os.environ.get("DTC_SANITIZED") == "thread", reason="dtc is built without ThreadSanitizer")


@pytest.fixture(scope="module", autouse=True)
def emulator():
    """A GPU that is there, if one is wanted: DTC_CUDA_LIBRARY_PATH of the caller wins."""
    before = os.environ.get("DTC_CUDA_LIBRARY_PATH")
    os.environ.setdefault("DTC_CUDA_LIBRARY_PATH", str(EMULATOR))
    yield
    if before is None:
        del os.environ["DTC_CUDA_LIBRARY_PATH"]


def compile_mlp(path, *flags: object, **kwargs):
    return call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "cross_entropy", "--global-batch", 8,
                *flags, "-o", path, **kwargs)


@pytest.mark.parametrize("model,devices,plan", [
    ("mlp", 1, "auto"),
    ("gpt2", 1, "auto"),
    ("gpt2", 2, "dp=2"),
    ("gpt2", 2, "tp=2"),
    ("llama", 4, "dp=2,tp=2"),
    ("gpt2", 2, "dp=2,zero=1"),
    ("gpt2", 2, "dp=2,zero=3,micro_batch=2"),
    ("gpt2", 1, "dp=1,micro_batch=2"),
    ("llama", 2, "tp=2,dp=1,micro_batch=1"),
    ("convnext", 2, "pp=2,dp=1,schedule=zb,micro_batch=2"),
])
def test_trains_as_pytorch(trainer, model, devices, plan):
    expected = reference(model, "adamw")
    steps = 10 if plan == "auto" else FEW
    run = trainer.train(model, model, *CUDA, *expected["flags"], devices=devices, plan=plan, steps=steps)
    compare_steps(run, first(steps, expected), loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("model,precision,plan,products,convolutions", [
    ("gpt2", "fp32", "dp=1", 8, 0), ("gpt2", "bf16", "dp=1", 8, 0), ("llama", "fp32", "dp=1", 15, 0),
    ("llama", "bf16", "pp=2,schedule=zb,dp=1", 15, 0), ("llama", "fp32", "dp=2,zero=2", 0, 0),
    ("convnext", "fp32", "dp=1", 7, 5), ("convnext", "tf32", "pp=2,schedule=zb,dp=1", 7, 5), ("convnext", "bf16-true", "dp=1", 7, 5),
    ("convnext", "bf16", "dp=1", 7, 0), ("convnext", "fp32", "dp=2,zero=2", 0, 0)])
def test_calls_add_to_what_earlier_microbatches_left(model, precision, plan, products, convolutions):
    """Of each weight that one of them reads. Its gradient takes the place of the sum. GPT-2's head is tied to its embedding. In bf16, gradients
    of convolutions' weights are widened by kernels."""
    devices = 2 if "=2" in plan else 1
    text = check_call("dtc", "compile", MODELS / f"{model}.onnx", *CUDA, "--devices", devices, "--loss", "cross_entropy", "--global-batch", 8,
                      "--precision", precision, "--plan", f"{plan},micro_batch=1", "--emit", "schedule").out
    adding = {"matmul": 0, "conv_weight_grad": 0}
    for function in text.split("func.func")[1:]:
        places = dict(re.findall(r"(%arg\d+): tensor<[^>]*> \{.*?exec\.offsets = (\d+) : i64\}", function.split("\n")[0]))
        for name, argument, place in re.findall(
                r"exec\.(matmul|conv_weight_grad) %\S+, %\S+ with (%arg\d+) (?!.*epilogue <(?:bias|gelu)).*exec\.offsets = array<i64: (\d+)", function):
            assert places[argument] == place
            adding[name] += 1
    assert adding == {"matmul": products, "conv_weight_grad": convolutions}


@pytest.mark.parametrize("recipe", ["sgd", "nesterov", "adam"])
def test_optimizers(trainer, recipe):
    expected = reference("mlp", recipe)
    run = trainer.train("mlp", "mlp", *CUDA, *expected["flags"])
    compare_steps(run, expected, loss=1e-4, norm=1e-3)


@pytest.mark.parametrize("devices,plan", [(1, "auto"), (2, "dp=2,zero=3,micro_batch=2"),
                                          (2, "pp=2,dp=1,schedule=1f1b,micro_batch=2")])
def test_evaluation_is_the_next_steps_loss(tmp_path, devices, plan):
    """Steps after the first are graphs; what is evaluated between them isn't one."""
    check_call("dtc", "compile", MODELS / "gpt2.onnx", *CUDA, "--loss", "cross_entropy", "--global-batch", 8, "--lr", 1e-2,
               "--devices", devices, "--plan", plan, "-o", tmp_path / "m.dtc")
    samples = load_file(MODELS / "gpt2.data.safetensors")
    save_file({name: array[:8].copy() for name, array in samples.items()}, tmp_path / "first.safetensors")
    expect_next_losses(tmp_path / "m.dtc", tmp_path / "first.safetensors", tmp_path)


@pytest.mark.parametrize("model,devices,plan", [(NORMS, 1, "dp=1"), (NORMS, 2, "dp=2"), (DROPOUT, 1, "dp=1")])
def test_evaluation_is_pytorchs_eval_mode(tmp_path, model, devices, plan):
    steps = 4 if model == DROPOUT else 10  # evaluations take a second each
    run = evaluated(compile_to(tmp_path / "m.dtc", model, "sgd", devices, plan, *CUDA), model, steps=steps)
    compare(run, model, "sgd", bound=1e-4, steps=steps)


@pytest.mark.parametrize("devices,plan", [(1, "auto"), (2, "tp=2"), (4, "dp=2,tp=2,zero=3")])
def test_gradients_that_are_no_numbers_are_counted(tmp_path, devices, plan):
    """One bias is no number, and so no gradient is one."""
    weights = load_file(MODELS / "mlp.adamw.final.safetensors")
    weights["fc1.bias"][0] = float("nan")
    save_file(weights, tmp_path / "w.safetensors")
    made = compile_mlp(tmp_path / "m.dtc", *CUDA, "--devices", devices, "--plan", plan, "--weights", tmp_path / "w.safetensors")
    assert made.code == 0, made.err
    outcome = call("dtc-run", tmp_path / "m.dtc", "--data", MODELS / "mlp.data.safetensors", "--steps", 2)
    assert outcome.code == 6
    line, elements = outcome.error_line(), sum(array.size for array in weights.values())
    assert "step 1: " in line and line.endswith(f"elements of the gradients that are infinite or no numbers: {elements}"), line


def test_a_gpu_that_hangs(tmp_path):
    """All has been called, and the GPU takes minutes: the run ends soon after its time limit."""
    assert compile_mlp(tmp_path / "mlp.dtc", *CUDA).code == 0
    slow = {**os.environ, "DTC_EMULATED_GPU_DELAY_US": "60000000"}
    done = call("dtc-run", tmp_path / "mlp.dtc", "--data", MODELS / "mlp.data.safetensors", "--steps", 2, "--timeout", 1,
                env=slow, timeout=30)
    assert done.code == 5
    assert "rank 0 waited 1 s for its GPU" in done.error_line()


def test_same_bits_every_time(trainer):
    flags = [*CUDA, *reference("mlp", "adamw")["flags"]]
    first = trainer.train("mlp", "mlp", *flags)
    again = trainer.train("mlp", "mlp", *flags, fresh=True)
    assert first.column("loss").tolist() == again.column("loss").tolist()
    assert all((first.weights[name] == again.weights[name]).all() for name in first.weights)


def members(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_without_ptxas_the_artifact_has_ptx_alone(tmp_path):
    done = compile_mlp(tmp_path / "mlp.dtc", *CUDA, env=bare_environment(tmp_path))
    assert done.code == 0, done.err
    warnings = [line for line in done.err.splitlines() if "warning" in line]
    assert len(warnings) == 1 and "ptxas isn't found" in warnings[0] and "PTX alone" in warnings[0]
    code = [name for name in members(tmp_path / "mlp.dtc") if name.startswith("code/")]
    assert code == ["code/kernels.ptx"]


def kernels_of(path) -> list[str]:
    return re.findall(r"\.entry (\w+)\(", members(path)["code/kernels.ptx"].decode())


def test_ptxas_that_fails(tmp_path):
    """At the last kernel, whose name its text doesn't tell."""
    assert compile_mlp(tmp_path / "mlp.dtc", *CUDA, env=bare_environment(tmp_path)).code == 0
    *_, last = kernels_of(tmp_path / "mlp.dtc")
    (tmp_path / "mlp.dtc").unlink()
    tool = tmp_path / "ptxas"
    tool.write_text(f"""#!/bin/sh
case $2 in */{last}.ptx) ;; *) exec {PTXAS} "$@" ;; esac
name=$(sed -n 's/.*entry \\([a-z_0-9]*\\).*/\\1/p' $2)
echo "ptxas $2, line 12; Unresolved extern function 'pow' in $name"
exit 255
""")
    tool.chmod(0o755)
    done = compile_mlp(tmp_path / "mlp.dtc", *CUDA, "--arch", "sm_90",
                       env={**os.environ, "DTC_PTXAS": str(tool), "DTC_KERNEL_CACHE": "off"})
    assert done.code == 1 and not (tmp_path / "mlp.dtc").exists()
    assert f"`{tool} -arch=sm_90 {last}.ptx -o {last}.cubin -warn-spills` failed at kernel {last}: ptxas {last}.ptx, line 12; " \
           f"Unresolved extern function 'pow' in {last}" in done.error_line()


def test_ptxas_that_cannot_be_run_is_said_once(tmp_path):
    done = compile_mlp(tmp_path / "mlp.dtc", *CUDA, env={**os.environ, "DTC_PTXAS": str(tmp_path / "ptxas")})
    assert done.code == 1 and done.error_line().count(f"cannot run {tmp_path / 'ptxas'}") == 1


def test_older_gpus_are_planned_alone(tmp_path):
    flags = (MODELS / "mlp.onnx", "--loss", "cross_entropy", "--cluster", "dgx-1")
    check_call("dtc", "plan", *flags)
    refused = call("dtc", "compile", *flags, "-o", tmp_path / "mlp.dtc")
    assert refused.code == 2 and "--cluster dgx-1: dtc plans for its v100" in refused.error_line() and "sm_80" in refused.error_line()


@pytest.mark.parametrize("flags,words", [
    (["--target", "cuda", "--arch", "sm_70"], ["--arch", "sm_70", "sm_80"]),
    (["--target", "cuda", "--arch", "sm_90,sm_90"], ["--arch", "twice", "sm_90"]),
    (["--target", "cuda", "--arch", ""], ["--arch", "''"]),
    (["--arch", "sm_90"], ["--arch", "--target cuda"]),
    (["--target", "cuda", "--threads-per-rank", 2], ["--threads-per-rank", "--target cpu"]),
])
def test_flags_that_do_not_fit(tmp_path, flags, words):
    done = compile_mlp(tmp_path / "mlp.dtc", *flags)
    assert done.code == 2 and not (tmp_path / "mlp.dtc").exists()
    assert all(word in done.error_line() for word in words), done.err


@pytest.mark.parametrize("model,precision,devices,plan,calls", [
    ("gpt2", "bf16", 1, "dp=1", 4),  # two layers, forward and backward
    ("gpt2", "fp32", 1, "dp=1", 0),
    ("llama", "bf16", 1, "recompute=full", 6),  # forward twice
    ("gpt2", "bf16", 2, "cp=2,cp_by=heads", 4),
    ("gpt2", "bf16", 2, "cp=2,cp_by=keys", 0),  # a rank's queries begin where it alone knows
    ("gpt2", "bf16", 2, "cp=2,cp_by=ring", 12),  # each in two steps, the second of two pairs of chunks
    ("gpt2_mask", "bf16", 1, "dp=1", 0),  # a bias, of which true GPUs gave wrong gradients (docs/GpuResults.md)
    ("mistral", "bf16", 1, "dp=1", 4),  # windows
    ("mistral", "bf16", 2, "cp=2,cp_by=heads", 4),
    ("bert", "bf16", 2, "tp=2", 0),  # a mask of padding
])
def test_attention_as_one_call(model, precision, devices, plan, calls):
    program = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--global-batch", 8, *CUDA,
                         "--precision", precision, "--devices", devices, "--plan", plan, "--emit", "schedule").out
    assert len(re.findall(r"= exec\.attention\b", program)) == calls


@pytest.mark.parametrize("devices,plan", [(1, "dp=1"), (2, "tp=2"), (1, "recompute=full")])
def test_no_kernel_copies_what_attention_reads_and_writes(devices, plan):
    """Queries, keys and values are parts of one product, their gradients of one tensor."""
    program = check_call("dtc", "compile", MODELS / "gpt2.onnx", "--loss", "cross_entropy", "--global-batch", 8, *CUDA,
                         "--precision", "bf16", "--devices", devices, "--plan", plan, "--emit", "schedule").out
    assert not re.search(r"exec\.launch .*tensor<8x32x3x\dx16xbf16>", program)
    gradients = re.findall(r"exec\.attention backward\((%\S+), (%\S+), (%\S+), .*\binto \[(.*?)\]", program)
    assert len(gradients) == 2 and all(q == k == v and into == "0, 0, 0" for q, k, v, into in gradients)


@pytest.mark.parametrize("model,plan", [("gpt2", "dp=1"), ("gpt2", "recompute=full")])
def test_parts_that_attention_reads_in_place_train_as_copies_do(trainer, monkeypatch, model, plan):
    """The emulated library computes the same of both, so that losses and norms have the same bits."""
    runs = {}
    for parts in "10":
        monkeypatch.setenv("DTC_CUDNN_PARTS", parts)
        run = trainer.train(model, model, *CUDA, *reference(model, "adamw")["flags"], "--precision", "bf16", plan=plan, fresh=True, steps=3)
        runs[parts] = run.column("loss").tolist(), run.column("grad_norm").tolist()
    assert runs["1"] == runs["0"]


@pytest.mark.parametrize("devices,plan", [
    case(True, 2, "pp=2,dp=1,schedule=1f1b,micro_batch=2"), case(False, 2, "cp=2,cp_by=heads"), case(True, 2, "cp=2,cp_by=ring"),
    case(False, 1, "recompute=full")])
def test_attention_under_plans_is_that_of_pytorch(trainer, devices, plan):
    """Where heads share keys; other plans are in test_cuda_models.py."""
    expected = reference("llama", "bf16")
    run = trainer.train("llama", "llama", *CUDA, *expected["flags"], devices=devices, plan=plan, steps=FEW)
    compare_steps(run, first(FEW, expected), loss=2e-3, norm=5e-2)


@pytest.mark.parametrize("model,devices,plan", [
    case(True, "gpt2_mask", 1, "dp=1"), case(True, "bert", 2, "tp=2"), case(False, "bert", 2, "dp=2,recompute=full"),
    case(True, "mistral", 1, "dp=1"), case(False, "mistral", 2, "tp=2")])
def test_attention_with_masks_is_that_of_pytorch(trainer, model, devices, plan):
    """PyTorch's run is in fp32: what bf16 rounds is allowed, no mask is lost."""
    expected = reference(model, "adamw")
    run = trainer.train(model, model, *CUDA, *expected["flags"], "--precision", "bf16", devices=devices, plan=plan, steps=FEW)
    compare_steps(run, first(FEW, expected), loss=1e-2, norm=1e-1)


@pytest.mark.parametrize("devices,plan", [case(True, 1, "dp=1"), case(False, 2, "pp=2,dp=1,schedule=1f1b,micro_batch=8")])
def test_a_sample_whose_keys_are_all_hidden(tmp_path, devices, plan):
    """Each key of it has its share, as on processors, where finite differences are met (Gradients/attention.mlir)."""
    samples = {name: array[:8].copy() for name, array in load_file(MODELS / "bert.data.safetensors").items()}
    samples["attention_mask"][3] = 0
    save_file(samples, tmp_path / "data.safetensors")
    norms = []
    for flags in (["--devices", 1], [*CUDA, "--precision", "bf16", "--devices", devices, "--plan", plan]):
        check_call("dtc", "compile", MODELS / "bert.onnx", "--loss", "cross_entropy", "--global-batch", 8, *flags, "-o",
                   tmp_path / "m.dtc")
        check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--steps", 1, "--log",
                   tmp_path / "log.jsonl")
        norms.append(json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])["grad_norm"])
    assert norms[1] == pytest.approx(norms[0], rel=1e-2)


@pytest.mark.parametrize("window", [0, 256])
def test_a_long_sequence_keeps_no_scores(tmp_path, window):
    """Those of one layer take 512 MiB. `dtc plan` doesn't count them either."""
    path = tmp_path / "model.onnx"
    llama_graph.write(path, llama_graph.Llama(2, 256, 4, 2, 512, 512, 2048, window))
    flags = [path, *CUDA, "--devices", 1, "--plan", "recompute=none", "--loss", "cross_entropy", "--global-batch", 8, "--precision"]
    assert arena_bytes(*flags, "bf16") < 512 << 20 < arena_bytes(*flags, "fp32")
    predicted = json.loads(check_call("dtc", "plan", *flags, "bf16", "--json").out)["predicted"]["memory"]
    assert sum(predicted.values()) - predicted["reserved"] < 512 << 20


@pytest.mark.parametrize("devices,plan", [case(True, 1, "dp=1"), case(False, 2, "dp=2")])
def test_convolutions_in_bf16(trainer, devices, plan):
    """cuDNN has no gradient in fp32 of weights in bf16: it is rounded, as PyTorch's is."""
    expected = reference("resnet_tiny", "bf16")
    run = trainer.train("resnet_tiny", "resnet_tiny", *CUDA, *expected["flags"], devices=devices, plan=plan, steps=FEW)
    compare_steps(run, first(FEW, expected), loss=6e-2, norm=1.5e-1)  # as on CPUs (test_training.py)
    loss = expected["steps"][0]["loss"]
    assert abs(run.log[0]["loss"] - loss) < 4e-3 * loss


def uneven_convolutions(path):
    """[4, 4, 7, 6] through a convolution that pads evenly, and one with strides and groups that doesn't, to classes."""
    draw = numpy.random.default_rng(3)

    def initializer(name, *shape):
        values = " ".join(f"float_data: {value}" for value in draw.normal(0, 0.4, shape).astype("f4").flatten())
        return f'initializer {{ name: "{name}" data_type: 1 {" ".join(f"dims: {size}" for size in shape)} {values} }}'

    def value(name, *sizes):
        dims = " ".join(f"dim {{ dim_value: {size} }}" for size in sizes)
        return f'{{ name: "{name}" type {{ tensor_type {{ elem_type: 1 shape {{ {dims} }} }} }} }}'

    return encode_model(f"""ir_version: 9 opset_import {{ version: 20 }} graph {{ name: "uneven"
        input {value("x", 4, 4, 7, 6)} output {value("logits", 4, 18)}
        {initializer("first.weight", 4, 4, 3, 3)} {initializer("second.weight", 2, 2, 3, 2)}
        node {{ op_type: "Conv" input: "x" input: "first.weight" output: "h"
                attribute {{ name: "pads" type: INTS ints: [1, 1, 1, 1] }} }}
        node {{ op_type: "Tanh" input: "h" output: "a" }}
        node {{ op_type: "Conv" name: "uneven" input: "a" input: "second.weight" output: "y"
                attribute {{ name: "group" type: INT i: 2 }} attribute {{ name: "strides" type: INTS ints: [2, 2] }}
                attribute {{ name: "pads" type: INTS ints: [0, 1, 1, 0] }} }}
        node {{ op_type: "Flatten" input: "y" output: "logits" }} }}""", path)


@pytest.mark.parametrize("precision,devices,plan,bound", [
    ("fp32", 1, "dp=1", 2e-6), ("fp32", 4, "dp=2,tp=2", 2e-6), ("fp32", 1, "dp=1,micro_batch=2", 2e-6), ("bf16", 1, "dp=1", 2e-2)])
def test_convolutions_that_pad_unevenly(tmp_path, precision, devices, plan, bound):
    """cuDNN pads both ends alike. Losses, norms and weights are those of processors, which pad as they are asked to."""
    draw, model = numpy.random.default_rng(4), uneven_convolutions(tmp_path / "model.onnx")
    save_file({"x": draw.normal(size=(16, 4, 7, 6)).astype("f4"), "target": draw.integers(0, 18, 16)}, tmp_path / "data.safetensors")
    logs, weights = [], []
    for target, kind in ((["--target", "cpu"], "fp32"), ([*CUDA, "--devices", devices, "--plan", plan], precision)):
        check_call("dtc", "compile", model, "--loss", "cross_entropy", "--global-batch", 4, "--optimizer", "sgd", "--lr", 0.5,
                   "--precision", kind, *target, "-o", tmp_path / "m.dtc")
        check_call("dtc-run", tmp_path / "m.dtc", "--data", tmp_path / "data.safetensors", "--no-shuffle", "--steps", 6,
                   "--log", tmp_path / "log.jsonl", "--save-weights", tmp_path / "w.safetensors")
        logs.append([json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()])
        weights.append(load_file(tmp_path / "w.safetensors"))
    for want, got in zip(*logs, strict=True):
        for key in ("loss", "grad_norm"):
            assert got[key] == pytest.approx(want[key], rel=10 * bound), (key, got)
    for name, want in weights[0].items():
        assert numpy.abs(weights[1][name] - want).max() < bound * 10 * numpy.abs(want).max(), name


@pytest.mark.parametrize("devices,plan", [case(True, 1, "dp=1"), case(False, 4, "dp=2,tp=2")])
def test_transposed_convolutions_train_as_pytorch(trainer, devices, plan):
    """Further places of their outputs are padding of one end."""
    expected = reference("upsampling", "adamw")
    run = trainer.train("upsampling.pt2", "upsampling", *CUDA, *expected["flags"], devices=devices, plan=plan, steps=FEW)
    compare_steps(run, first(FEW, expected), loss=1e-4, norm=1e-3)


def test_an_artifact_has_cubins_of_three_architectures(tmp_path):
    done = compile_mlp(tmp_path / "mlp.dtc", *CUDA, env={**os.environ, "DTC_PTXAS": str(PTXAS)})
    assert done.code == 0, done.err
    code = {name for name in members(tmp_path / "mlp.dtc") if name.startswith("code/")}
    kernels = kernels_of(tmp_path / "mlp.dtc")
    assert code == {"code/kernels.ptx", *(f"code/sm_{number}/{name}.cubin" for number in (80, 90, 100) for name in kernels)}


@pytest.mark.parametrize("devices,plan,flags", [
    case(False, 2, "tp=2", ["--precision", "bf16"]),
    case(False, 2, "dp=2,zero=3,micro_batch=2", []),
    case(True, 4, "dp=2,tp=2,zero=1,micro_batch=2", []),  # collectives on two streams
    case(True, 4, "dp=2,pp=2,schedule=1f1b,micro_batch=2", []),
])
def test_ranks_that_share_a_gpu(tmp_path, devices, plan, flags):
    """They compute what ranks with a GPU each do, also where all streams share one hardware queue."""
    artifact = tmp_path / "m.dtc"
    check_call("dtc", "compile", MODELS / "gpt2.onnx", *CUDA, "--loss", "cross_entropy", "--global-batch", 8, "--lr", 1e-2,
               "--devices", devices, "--plan", plan, *flags, "-o", artifact)
    found = []
    for gpus in (devices, 1):
        weights = tmp_path / f"{gpus}.safetensors"
        check_call("dtc-run", artifact, "--data", MODELS / "gpt2.data.safetensors", "--steps", 3, "--save-weights", weights,
                   env={**os.environ, "DTC_EMULATED_GPU_COUNT": str(gpus), "DTC_SHARE_GPU": str(int(gpus == 1)),
                        "DTC_EMULATED_GPU_QUEUES": str(int(gpus == 1))})
        found.append(weights.read_bytes())
    assert found[0] == found[1]


def test_a_gpu_is_shared_where_that_is_asked_for(tmp_path):
    artifact = tmp_path / "m.dtc"
    assert compile_mlp(artifact, *CUDA, "--devices", 2, "--plan", "dp=2").code == 0
    for share, flags, code, said in (("0", [], 4, "more ranks than this machine has GPUs"),
                                     ("1", ["--processes"], 2, "threads of one process")):
        run = call("dtc-run", artifact, "--data", MODELS / "mlp.data.safetensors", "--steps", 1, *flags,
                   env={**os.environ, "DTC_EMULATED_GPU_COUNT": "1", "DTC_SHARE_GPU": share})
        assert run.code == code and said in run.error_line()


def test_a_rank_that_fails_ends_those_that_share_its_gpu(tmp_path):
    """The loss isn't finite on the second step; streams that wait for other ranks end too."""
    artifact = tmp_path / "m.dtc"
    assert compile_mlp(artifact, *CUDA, "--devices", 2, "--plan", "dp=2", "--lr", 1e30).code == 0
    run = call("dtc-run", artifact, "--data", MODELS / "mlp.data.safetensors", "--steps", 20, timeout=60,
               env={**os.environ, "DTC_EMULATED_GPU_COUNT": "1", "DTC_SHARE_GPU": "1"})
    assert run.code not in (0, None) and "finite" in run.error_line()


@loaded_by_dtc
def test_calibrated_gpus_plan(tmp_path):
    """Of an emulated GPU the figures are small, and those of its collectives are there."""
    cluster = tmp_path / "gpus.yaml"
    said = check_call("dtc", "calibrate", "--target", "cuda", "-o", cluster, env={**os.environ, "DTC_EMULATED_GPU_COUNT": "2"}).out
    assert said.startswith("dtc emulated GPU: f32 ") and "attention" in said
    text = cluster.read_text()
    found = {key: float(re.search(rf"{key}: (\S+?)[,}}\n]", text)[1]) for key in ("bandwidth_gbs", "launch_us", "multiprocessors")}
    assert all(value > 0 for value in found.values()) and found["multiprocessors"] == 132
    rates = re.search(r"achieved_tflops: {fp32: (\S+), bf16: (\S+), fp16: (\S+), tf32: (\S+)}", text).groups()
    assert all(float(rate) > 0 for rate in rates)
    forward, backward = map(float, re.search(r"attention_tflops: {forward: (\S+), backward: (\S+)}", text).groups())
    assert forward > 0 and backward > 0
    assert {int(ranks) for ranks in re.findall(r"kind: all_reduce, ranks: (\d+)", text)} == {2}
    plan = ["dtc", "plan", MODELS / "gpt2.onnx", "--gpus", 2, "--loss", "cross_entropy", "--global-batch", 8, "--json"]
    slow, fast = (json.loads(check_call(*plan, "--cluster", name).out)["predicted"]["step_time_s"] for name in (cluster, "dgx-h100"))
    assert slow > fast
    check_call("dtc", "compile", *plan[2:-1], "--cluster", cluster, *CUDA, "-o", tmp_path / "m.dtc")


@loaded_by_dtc
def test_no_gpu_to_calibrate(tmp_path):
    run = call("dtc", "calibrate", "--target", "cuda", "-o", tmp_path / "gpus.yaml", env={**os.environ, "DTC_EMULATED_GPU_COUNT": "0"})
    assert run.code == 4 and "no GPU" in run.error_line() and not (tmp_path / "gpus.yaml").exists()
