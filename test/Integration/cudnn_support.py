"""Asks true cuDNN, without a GPU, whether it supports the convolutions and the attention that dtc gives it.

    python cudnn_support.py FOLDER       FOLDER has libcudnn.so.9, as PyPI's nvidia-cudnn-cu13; beside it are
                                         PyPI's nvidia-cublas, nvidia-cuda-nvrtc and nvidia-cuda-runtime

cuDNN plans for a device that it is told the properties of. Those of the GPU that scripts/gpu_tests.py last ran on are in
docs/GpuResults.properties.json, once it has; others are written down here. An engine counts where dtc would take it
(lib/Runtime/CUDA/CudnnPlan.cpp): exact in fp32, deterministic, within the workspace that the compiler plans.
It takes a driver for granted, so cudnn_driver.c stands in for one that loads kernels and launches none.
"""

import ctypes
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from conftest import MODELS, ROOT, check_call

VISION = ["resnet_tiny", "resnet18", "vit", "mobilenet", "convnext"]
LANGUAGE = ["gpt2", "llama", "qwen2", "gpt_neox", "bert", "bart", "mistral", "mixtral", "moe"]
H200 = {
    "deviceId": 0, "deviceVer": 900, "driverVer": 13000, "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
    "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
    "l2CacheSize": 62914560, "totalGlobalMem": 150121545728, "deviceName": "NVIDIA H200", "cudaDeviceId": 0,
    "memoryBusWidth": 6144, "smCountOrigin": 0, "oversizedSharedMemoryPerBlock": 0,
}
A100 = {**H200, "deviceVer": 800, "multiProcessorCount": 108, "maxSharedMemoryPerBlockOptin": 166912, "deviceName": "NVIDIA A100"}
B200 = {**H200, "deviceVer": 1000, "multiProcessorCount": 148, "deviceName": "NVIDIA B200"}
MEASURED = ROOT / "docs" / "GpuResults.properties.json"
# Of models beside the tests': batch, query heads, key heads, queries, keys, size of a query's and of a value's head, causal,
# the keys of a window or 0, and the shape of a bias with its type, positions by head.
# Where queries, keys and values are parts of larger tensors, the elements from token to token and from head to head of each follow.
ATTENTION = [(8, 12, 12, 1024, 1024, 64, 64, True, 0, ()), (2, 32, 8, 2048, 2048, 128, 128, True, 0, ()),
             (2, 8, 2, 128, 256, 64, 64, True, 0, ()), (4, 16, 16, 197, 197, 64, 64, False, 0, ()), (1, 3, 1, 37, 37, 96, 96, True, 0, ()),
             (2, 4, 4, 100, 52, 24, 40, False, 0, ()), (8, 12, 12, 512, 512, 64, 64, False, 0, (1, 12, 512, 512, "bf16")),
             (2, 32, 8, 2048, 2048, 128, 128, True, 0, (1, 32, 2048, 2048, "bf16")),
             (2, 8, 2, 128, 256, 64, 64, False, 0, (1, 8, 128, 256, "bf16")), (2, 4, 4, 100, 52, 24, 40, False, 0, (1, 4, 100, 52, "bf16")),
             (1, 32, 8, 8192, 8192, 128, 128, True, 4096, ()), (2, 16, 8, 2048, 2048, 64, 64, True, 128, ()), (2, 4, 2, 32, 32, 16, 16, True, 8, ()),
             (2, 8, 2, 128, 256, 64, 64, True, 100, ()), (1, 3, 1, 37, 37, 96, 96, True, 1, ()), (2, 8, 4, 512, 512, 128, 128, True, 300, ()),
             (32, 12, 12, 1024, 1024, 64, 64, True, 0, (), ((2304, 64),) * 3),  # GPT-2: token by token
             (8, 12, 12, 512, 512, 64, 64, False, 0, (), ((2304, 64),) * 3),  # BERT's, of one product
             (4, 16, 16, 2048, 2048, 64, 64, True, 0, (), ((3072, 192),) * 3),  # GPT-NeoX: head by head
             (2, 32, 8, 2048, 2048, 128, 128, True, 0, (), ((6144, 128),) * 3),  # shared keys
             (4, 16, 16, 300, 200, 64, 64, False, 0, (), ((1024, 64), (2048, 64), (2048, 64)))]  # keys and values of one product
# Attributes' types, and numbers, of cudnn_graph_v9.h; include/dtc-cuda/Cudnn.h has those that dtc-run uses.
DATA_TYPE, BOOLEAN, INT64, FLOAT, MODE, HEURISTIC, NOTE, POINTWISE, DESCRIPTOR, CHAR = 1, 2, 3, 4, 7, 8, 11, 14, 15, 24
CONVOLUTION, ENGINE, CONFIGURATION, HEURISTICS, PLAN, GRAPH, TENSOR, DEVICE = 1, 2, 3, 4, 5, 15, 17, 38
FP32, INT32, BF16, TRUTH, REDUCTION = 0, 4, 9, 11, 18
ADD, MUL, DIV, SUB, EXP, LOG, IDENTITY, GREATER, NOT_LESS, INDEX, SELECT = 0, 1, 6, 9, 13, 15, 21, 302, 303, 501, 601
SUM, MOST = 0, 3
# Kind: descriptor, first attribute, and which of the three tensors follow in attributes' order.
OPERATIONS = {"conv": (10, 700, "wxy"), "conv_input_grad": (12, 706, "wxy"), "conv_weight_grad": (11, 712, "wxy")}
NOT_TAKEN = {1, 2, 3, 4}  # converted inputs; coarse sums; FFT; nondeterministic
TENSOR_CORE = 0  # rounds fp32
MOST_ENGINES = 128
WORKSPACE = 32 << 20


class Cudnn:
    """The library, and the device that it plans for."""

    def __init__(self, folder: pathlib.Path, device: dict = H200):
        for name in sorted(folder.glob("../../cu13/lib/lib*.so.*")):  # where PyPI's wheels put what it needs
            try:
                ctypes.CDLL(str(name), mode=ctypes.RTLD_GLOBAL)
            except OSError:
                pass  # some need a driver, and aren't needed
        self.cudnn = ctypes.CDLL(str(folder / "libcudnn.so.9"), mode=ctypes.RTLD_GLOBAL)
        self.cudnn.cudnnGetErrorString.restype = ctypes.c_char_p
        text = json.dumps(device).encode()
        self.device = self.make(DEVICE)
        self.call("SetAttribute", self.device, 2702, CHAR, ctypes.c_int64(len(text)), ctypes.create_string_buffer(text))
        self.call("Finalize", self.device)

    def call(self, name: str, *arguments) -> None:
        status = getattr(self.cudnn, f"cudnnBackend{name}")(*arguments)
        if status:
            raise RuntimeError(f"{name}: {self.cudnn.cudnnGetErrorString(status).decode()}")

    def make(self, kind: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("CreateDescriptor", kind, ctypes.byref(made))
        return made

    def finished(self, kind: int, *attributes: tuple) -> ctypes.c_void_p:
        made = self.make(kind)
        types = {INT64: ctypes.c_int64, FLOAT: ctypes.c_float, DESCRIPTOR: ctypes.c_void_p, BOOLEAN: ctypes.c_bool}
        for name, code, values in attributes:
            values = [value.value if code == DESCRIPTOR else value for value in values]
            array = (types.get(code, ctypes.c_int) * len(values))(*values)
            self.call("SetAttribute", made, name, code, ctypes.c_int64(len(values)), array)
        self.call("Finalize", made)
        return made

    def get(self, descriptor, name: int, code: int, array) -> int:
        count = ctypes.c_int64()
        self.call("GetAttribute", descriptor, name, code, ctypes.c_int64(len(array)), ctypes.byref(count), array)
        return min(count.value, len(array))

    def tensor(self, number: int, dims: list[int], kind: int) -> ctypes.c_void_p:
        strides = [math.prod(dims[dim + 1:]) for dim in range(len(dims))]
        return self.finished(TENSOR, (901, DATA_TYPE, [kind]), (902, INT64, dims), (903, INT64, strides), (900, INT64, [16]),
                             (906, INT64, [number]))

    def has_convolution(self, conv: dict, adds: bool) -> bool:
        """Whether there is an engine that dtc would take. With `adds`, the result is added to what is in its place."""
        dims = len(conv["strides"])
        window = self.finished(CONVOLUTION, (100, DATA_TYPE, [0]), (101, MODE, [1]), (102, INT64, conv["dilations"]),
                               (103, INT64, conv["strides"]), (104, INT64, conv["high"]), (105, INT64, conv["low"]),
                               (106, INT64, [dims]))
        kind, first, order = OPERATIONS[conv["kind"]]
        tensors = [(first + 3 + i, DESCRIPTOR, [self.tensor(i, conv[name], conv["type"])]) for i, name in enumerate(order)]
        operation = self.finished(kind, (first, FLOAT, [1.0]), (first + 1, FLOAT, [float(adds)]),
                                  (first + 2, DESCRIPTOR, [window]), *tensors)
        workspace = WORKSPACE + 4 * sum(math.prod(conv[name]) for name in "xwy")
        return self.has_engine([operation], workspace, NOT_TAKEN | ({TENSOR_CORE} if conv["type"] == FP32 else set()))

    def has_engine(self, operations: list, workspace: int, not_taken: set[int]) -> bool:
        graph = self.finished(GRAPH, (801, DESCRIPTOR, operations))
        for mode in (3, 2):
            try:
                heuristic = self.finished(HEURISTICS, (200, HEURISTIC, [mode]), (201, DESCRIPTOR, [graph]),
                                          (204, DESCRIPTOR, [self.device]))
            except RuntimeError:
                continue  # no engine in this mode
            made = [self.make(CONFIGURATION) for _ in range(MOST_ENGINES)]
            count = self.get(heuristic, 202, DESCRIPTOR, (ctypes.c_void_p * MOST_ENGINES)(*[c.value for c in made]))
            if any(self.is_taken(each, workspace, not_taken) for each in made[:count]):
                return True
        return False

    def is_taken(self, configuration, workspace: int, not_taken: set[int]) -> bool:
        engine, notes, bytes_needed = self.make(ENGINE), (ctypes.c_int * 10)(), (ctypes.c_int64 * 1)()
        self.get(configuration, 300, DESCRIPTOR, (ctypes.c_void_p * 1)(engine.value))
        if not_taken & set(notes[:self.get(engine, 1303, NOTE, notes)]):
            return False
        try:
            plan = self.finished(PLAN, (401, DESCRIPTOR, [configuration]), (407, DESCRIPTOR, [self.device]))
        except RuntimeError:
            return False
        self.get(plan, 402, INT64, bytes_needed)
        return bytes_needed[0] <= workspace

    def has_attention(self, backward: bool, b, h, g, s, t, e, f, causal, window, bias, joined=()) -> bool:
        graph = AttentionGraph(self, b, h, g, s, t, e, f, causal, window, bias, joined)
        operations = graph.backward() if backward else graph.forward()
        return self.has_engine(operations, attention_workspace(backward, b, h, g, s, t, e, f), NOT_TAKEN)


class AttentionGraph:
    """Operations, as lib/Runtime/CUDA/AttentionGraph.cpp describes them."""

    def __init__(self, cudnn: Cudnn, b, h, g, s, t, e, f, causal, window, bias, joined):
        self.cudnn, self.causal, self.window, self.bias, self.operations, self.ids = cudnn, causal, window, bias, [], 0
        self.scores, self.rows, self.shared = [b, h, s, t], [b, h, s, 1], h != g
        self.turned = ([b, h, t, s], [h * s * t, s * t, 1, t])
        query, key, value = joined or [(h * e, e), (g * e, e), (g * f, f)]
        self.query, self.key = self.heads(b, s, h, e, *query), self.heads(b, t, g, e, *key)
        self.value, self.output = self.heads(b, t, g, f, *value), self.heads(b, s, h, f, h * f, f)
        self.of_heads = {e: [b, h, t, e], f: [b, h, t, f]}

    @staticmethod
    def heads(batch, length, heads, size, token, head) -> tuple[list[int], list[int]]:
        """Elements from a token to the next one, and from a head to the next one."""
        return [batch, heads, length, size], [length * token, head, token, 1]

    @staticmethod
    def turn(view: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
        return tuple([a, b, d, c] for a, b, c, d in view)

    def tensor(self, view, kind: int = BF16, **flags: bool) -> ctypes.c_void_p:
        dims, strides = view if isinstance(view, tuple) else (view, [math.prod(view[dim + 1:]) for dim in range(len(view))])
        self.ids += 1
        return self.cudnn.finished(TENSOR, (901, DATA_TYPE, [kind]), (902, INT64, dims), (903, INT64, strides), (900, INT64, [16]),
                                   (906, INT64, [self.ids]), (907, BOOLEAN, [flags.get("virtual", False)]),
                                   (908, BOOLEAN, [flags.get("host", False)]))

    def between(self, view, kind: int = FP32) -> ctypes.c_void_p:
        return self.tensor(view, kind, virtual=True)

    def number(self, kind: int = FP32) -> ctypes.c_void_p:
        return self.tensor([1, 1, 1, 1], kind, host=True)

    def add(self, kind: int, tensors: dict) -> None:
        self.operations.append(self.cudnn.finished(kind, *((name, DESCRIPTOR, [tensor]) for name, tensor in tensors.items())))

    def pointwise(self, mode: int, inputs: list, output, precision: int = FP32, axis: int | None = None):
        kind = self.cudnn.finished(0, (0, POINTWISE, [mode]), (1, DATA_TYPE, [precision]),
                                   *([(9, INT64, [axis])] if axis is not None else []))
        self.add(13, {750: kind, 753: output, **dict(zip((751, 752, 758), inputs))})
        return output

    def multiply(self, a, b, c):
        self.add(19, {1523: self.cudnn.finished(18, (1500, DATA_TYPE, [FP32])), 1520: a, 1521: b, 1522: c})
        return c

    def reduce(self, operator: int, x, y):
        self.add(22, {1612: self.cudnn.finished(21, (1600, REDUCTION, [operator]), (1601, DATA_TYPE, [FP32])), 1610: x, 1611: y})
        return y

    def reshape(self, x, y):
        self.add(31, {2200: x, 2201: y})
        return y

    def biased_scores(self, query, key, scale):
        scores = self.pointwise(MUL, [self.multiply(query, key, self.between(self.scores)), scale], self.between(self.scores))
        if not self.bias:
            return scores
        *shape, kind = self.bias
        bias = self.tensor(shape, {"f32": FP32, "bf16": BF16}[kind])
        return self.pointwise(ADD, [scores, bias], self.between(self.scores))

    def mask(self, scores):
        if not self.causal:
            return scores
        row, column = self.places(scores)
        if self.scores[2] != self.scores[3]:
            for mode in (ADD, SUB):
                row = self.pointwise(mode, [row, self.number(INT32)], self.between(self.scores, INT32), INT32)
        scores = self.where(NOT_LESS, row, column, scores)
        if not self.window:
            return scores
        row, column = self.places(scores)
        column = self.pointwise(ADD, [column, self.number()], self.between(self.scores))
        return self.where(GREATER, column, row, scores)

    def places(self, scores) -> list:
        return [self.pointwise(INDEX, [scores], self.between(self.scores, INT32), axis=axis) for axis in (2, 3)]

    def where(self, mode: int, a, b, scores):
        seen = self.pointwise(mode, [a, b], self.between(self.scores, TRUTH), TRUTH)
        return self.pointwise(SELECT, [scores, self.number(), seen], self.between(self.scores))

    def forward(self) -> list:
        s = self.mask(self.biased_scores(self.tensor(self.query), self.tensor(self.turn(self.key)), self.number()))
        most = self.reduce(MOST, s, self.between(self.rows))
        s = self.pointwise(EXP, [self.pointwise(SUB, [s, most], self.between(self.scores))], self.between(self.scores))
        total = self.reduce(SUM, s, self.between(self.rows))
        self.pointwise(ADD, [most, self.pointwise(LOG, [total], self.between(self.rows))], self.tensor(self.rows, FP32))
        p = self.pointwise(DIV, [s, total], self.between(self.scores, BF16))
        self.multiply(p, self.tensor(self.value), self.tensor(self.output))
        return self.operations

    def key_gradient(self, matrix, other, gradient) -> None:
        if not self.shared:
            self.multiply(matrix, other, self.tensor(gradient))
            return
        whole = self.multiply(matrix, other, self.between(self.of_heads[gradient[0][3]], BF16))
        self.reduce(SUM, whole, self.tensor(gradient))

    def backward(self) -> list:
        query, key, value = self.tensor(self.query), self.tensor(self.turn(self.key)), self.tensor(self.turn(self.value))
        gradient, scale = self.tensor(self.output), self.number()
        inner = self.pointwise(MUL, [gradient, self.tensor(self.output)], self.between(self.output[0]))
        inner = self.reduce(SUM, inner, self.between(self.rows))
        inner = self.pointwise(MUL, [inner, self.number()], self.tensor(self.rows, FP32))
        p = self.biased_scores(query, key, scale)
        p = self.mask(self.pointwise(SUB, [p, self.tensor(self.rows, FP32)], self.between(self.scores)))
        p = self.pointwise(EXP, [p], self.between(self.scores))
        self.key_gradient(self.reshape(p, self.between(self.turned, BF16)), gradient, self.value)
        ds = self.multiply(gradient, value, self.between(self.scores))
        for mode, other in ((SUB, inner), (MUL, p), (MUL, scale)):
            ds = self.pointwise(mode, [ds, other], self.between(self.scores))
        self.key_gradient(self.reshape(ds, self.between(self.turned, BF16)), query, self.key)
        whole = self.multiply(ds, self.reshape(key, self.between(self.key, BF16)), self.tensor(self.query[0], FP32))
        self.pointwise(IDENTITY, [whole], self.tensor(self.query))
        return self.operations


def attention_workspace(backward: bool, b, h, g, s, t, e, f) -> int:
    """As the compiler plans it (lib/Target/CUDA/LibraryCalls.cpp), without the sums that the graph has there."""
    def tiles(count: int) -> int:
        return -(-count // 128) * 128

    if not backward:
        return 1024
    return 1024 + 4 * b * h * tiles(s) * e + (2 * b * h * tiles(t) * (e + f) if h != g else 0)


def convolutions(model: str, precision: str) -> list[dict]:
    """The different ones that dtc makes of a model in a precision, as input (x), weight (w) and output (y)."""
    text = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--global-batch", 8,
                      "--precision", precision, "--target", "cuda", "--emit", "schedule").out
    names = {"conv": "xwy", "conv_input_grad": "ywx", "conv_weight_grad": "xyw"}  # operands, then the result
    pattern = re.compile(r"dtc\.(conv\w*) .*?strides (\[.*?\]) pad (\[.*?\]), (\[.*?\]) dilations (\[.*?\]).*? : (.*)")
    found = []
    for kind, strides, low, high, dilations, types in pattern.findall(text):
        tensors = re.findall(r"tensor<([0-9x]+)x(\w+)>", types)
        shapes = [[int(dim) for dim in shape.split("x")] for shape, _ in tensors]
        (element,) = {element for _, element in tensors}
        conv = {"kind": kind, "type": {"f32": FP32, "bf16": BF16}[element], "strides": json.loads(strides),
                "low": json.loads(low), "high": json.loads(high), "dilations": json.loads(dilations),
                **dict(zip(names[kind], shapes, strict=True))}
        if conv not in found:
            found.append(conv)
    return found


def attentions(model: str) -> list[tuple]:
    """The different ones that dtc makes of a model in bf16, forward: their gradients have the same shapes."""
    text = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--global-batch", 8,
                      "--precision", "bf16", "--target", "cuda", "--emit", "schedule").out
    found = set()
    pattern = r"exec\.attention\(([^)]*)\) scale \S+( causal)?(?: window (\d+))? places \[(.*?)\] into .*? : \((.*?)\) ->"
    for inputs, causal, window, places, types in re.findall(pattern, text):
        tensors = [(json.loads(shape), json.loads(strides)) for shape, strides in
                   re.findall(r"place<\d+, (\[.*?\]), (\[.*?\])>", places)]
        ((b, s, h, e), query), ((_, t, g, _), key), ((*_, f), value) = tensors[:3]
        bias = ()
        if inputs.count("%") > 3:
            bias = (*tensors[3][0], re.findall(r"x([a-z]\w*)>", types)[3])
        parts = tuple((strides[1], strides[2]) for strides in (query, key, value))
        found.add((b, h, g, s, t, e, f, bool(causal), int(window or 0), bias,
                   *([parts] if parts != ((h * e, e), (g * e, e), (g * f, f)) else [])))
    return sorted(found)


def devices(measured: pathlib.Path = MEASURED) -> list[dict]:
    """Those that cuDNN is asked about. A GPU that told its own properties comes first."""
    told = [json.loads(measured.read_text())] if measured.exists() else []
    return [*told, A100, H200, B200]


def ask_for_convolutions(folder: pathlib.Path) -> int:
    wanted = [(model, precision, conv) for model in VISION for precision in ("fp32", "bf16")
              for conv in convolutions(model, precision)]
    lacking = 0
    for device in devices():
        cudnn = Cudnn(folder, device)
        for model, precision, conv in wanted:
            for adds in (False, True) if conv["kind"] == "conv_weight_grad" else (False,):
                found = cudnn.has_convolution(conv, adds)
                lacking += not found
                print(f"{device['deviceName']}, {model}, {precision}: {conv['kind']} {conv['x']} with {conv['w']}"
                      f"{', added to those of before' if adds else ''}: {'an' if found else 'no'} engine", flush=True)
    return lacking


def ask_for_attention(folder: pathlib.Path) -> int:
    wanted = sorted({*ATTENTION, *(each for model in LANGUAGE for each in attentions(model))})
    lacking = 0
    for device in devices():
        cudnn = Cudnn(folder, device)
        for shape in wanted:
            found = [cudnn.has_attention(backward, *shape) for backward in (False, True)]
            lacking += found.count(False)
            print(f"{device['deviceName']}: attention {shape}: {'an engine' if all(found) else f'engines: {found}'}", flush=True)
    return lacking


def with_driver() -> None:
    """Begins again with a library in the driver's place, unless there is one."""
    if "DTC_CUDNN_DRIVER" in os.environ:
        return
    with tempfile.TemporaryDirectory() as folder:
        library = pathlib.Path(folder) / "libcuda.so.1"
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library,
                        pathlib.Path(__file__).with_name("cudnn_driver.c")], check=True)
        sys.exit(subprocess.run([sys.executable, *sys.argv], check=False,
                                env=os.environ | {"LD_PRELOAD": str(library), "DTC_CUDNN_DRIVER": str(library)}).returncode)


def main() -> int:
    with_driver()
    os.environ.pop("LD_PRELOAD")  # the compiler needs none
    folder = pathlib.Path(sys.argv[1])
    print(f"cuDNN {Cudnn(folder).cudnn.cudnnGetVersion()}")
    lacking = ask_for_convolutions(folder) + ask_for_attention(folder)
    print(f"{lacking} operations without an engine")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
