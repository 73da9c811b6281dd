"""Asks true cuDNN, without a GPU, whether it supports the convolutions that dtc gives it.

    python cudnn_support.py FOLDER       FOLDER has libcudnn.so.9, as PyPI's nvidia-cudnn-cu13

cuDNN plans for a device that it is told the properties of. An engine counts where dtc would take it
(lib/Runtime/CUDA/ConvOperation.cpp): exact in fp32, deterministic, within the workspace that the compiler plans.
"""

import ctypes
import json
import math
import pathlib
import re
import sys

from conftest import MODELS, check_call

VISION = ["resnet_tiny", "resnet18", "vit", "mobilenet", "convnext"]
H200 = {
    "deviceId": 0, "deviceVer": 900, "driverVer": 13000, "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
    "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
    "l2CacheSize": 62914560, "totalGlobalMem": 150121545728, "deviceName": "NVIDIA H200", "cudaDeviceId": 0,
}
# Attributes' types, and numbers, of cudnn_graph_v9.h; include/dtc-cuda/Cudnn.h has those that dtc-run uses.
DATA_TYPE, INT64, FLOAT, MODE, HEURISTIC, NOTE, DESCRIPTOR, CHAR = 1, 3, 4, 7, 8, 11, 15, 24
CONVOLUTION, ENGINE, CONFIGURATION, HEURISTICS, PLAN, GRAPH, TENSOR, DEVICE = 1, 2, 3, 4, 5, 15, 17, 38
# Kind: descriptor, first attribute, and which of the three tensors follow in attributes' order.
OPERATIONS = {"conv": (10, 700, "wxy"), "conv_input_grad": (12, 706, "wxy"), "conv_weight_grad": (11, 712, "wxy")}
NOT_TAKEN = {0, 1, 2, 3, 4}  # tensor cores, which round fp32; converted inputs; coarse sums; FFT; nondeterministic
MOST_ENGINES = 128
WORKSPACE = 32 << 20


class Cudnn:
    """The library, and the device that it plans for."""

    def __init__(self, folder: pathlib.Path):
        for name in sorted(folder.glob("../../cu13/lib/lib*.so.*")):  # where PyPI's wheels put what it needs
            try:
                ctypes.CDLL(str(name), mode=ctypes.RTLD_GLOBAL)
            except OSError:
                pass  # some need a driver, and aren't needed
        self.cudnn = ctypes.CDLL(str(folder / "libcudnn.so.9"), mode=ctypes.RTLD_GLOBAL)
        self.cudnn.cudnnGetErrorString.restype = ctypes.c_char_p
        text = json.dumps(H200).encode()
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
        types = {INT64: ctypes.c_int64, FLOAT: ctypes.c_float, DESCRIPTOR: ctypes.c_void_p}
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

    def tensor(self, number: int, dims: list[int]) -> ctypes.c_void_p:
        strides = [math.prod(dims[dim + 1:]) for dim in range(len(dims))]
        return self.finished(TENSOR, (901, DATA_TYPE, [0]), (902, INT64, dims), (903, INT64, strides), (900, INT64, [16]),
                             (906, INT64, [number]))

    def engines(self, conv: dict) -> int:
        """How many engines dtc would take."""
        dims = len(conv["strides"])
        window = self.finished(CONVOLUTION, (100, DATA_TYPE, [0]), (101, MODE, [1]), (102, INT64, conv["dilations"]),
                               (103, INT64, conv["strides"]), (104, INT64, conv["high"]), (105, INT64, conv["low"]),
                               (106, INT64, [dims]))
        kind, first, order = OPERATIONS[conv["kind"]]
        tensors = [(first + 3 + i, DESCRIPTOR, [self.tensor(i, conv[name])]) for i, name in enumerate(order)]
        operation = self.finished(kind, (first, FLOAT, [1.0]), (first + 1, FLOAT, [0.0]),
                                  (first + 2, DESCRIPTOR, [window]), *tensors)
        graph = self.finished(GRAPH, (801, DESCRIPTOR, [operation]))
        heuristic = self.finished(HEURISTICS, (200, HEURISTIC, [3]), (201, DESCRIPTOR, [graph]),
                                  (204, DESCRIPTOR, [self.device]))
        configurations = [self.make(CONFIGURATION) for _ in range(MOST_ENGINES)]
        found = self.get(heuristic, 202, DESCRIPTOR, (ctypes.c_void_p * MOST_ENGINES)(*[c.value for c in configurations]))
        workspace = WORKSPACE + 4 * sum(math.prod(conv[name]) for name in "xwy")
        return sum(self.is_taken(each, workspace) for each in configurations[:found])

    def is_taken(self, configuration, workspace: int) -> bool:
        engine, notes, bytes_needed = self.make(ENGINE), (ctypes.c_int * 10)(), (ctypes.c_int64 * 1)()
        self.get(configuration, 300, DESCRIPTOR, (ctypes.c_void_p * 1)(engine.value))
        if NOT_TAKEN & set(notes[:self.get(engine, 1303, NOTE, notes)]):
            return False
        try:
            plan = self.finished(PLAN, (401, DESCRIPTOR, [configuration]), (407, DESCRIPTOR, [self.device]))
        except RuntimeError:
            return False
        self.get(plan, 402, INT64, bytes_needed)
        return bytes_needed[0] <= workspace


def convolutions(model: str) -> list[dict]:
    """The different ones that dtc makes of a model, as input (x), weight (w) and output (y)."""
    text = check_call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--global-batch", 8,
                      "--target", "cuda", "--emit", "schedule").out
    names = {"conv": "xwy", "conv_input_grad": "ywx", "conv_weight_grad": "xyw"}  # operands, then the result
    pattern = re.compile(r"dtc\.(conv\w*) .*?strides (\[.*?\]) pad (\[.*?\]), (\[.*?\]) dilations (\[.*?\]).*? : (.*)")
    found = []
    for kind, strides, low, high, dilations, types in pattern.findall(text):
        shapes = [[int(dim) for dim in shape.split("x")] for shape in re.findall(r"tensor<([0-9x]+)xf32", types)]
        conv = {"kind": kind, "strides": json.loads(strides), "low": json.loads(low), "high": json.loads(high),
                "dilations": json.loads(dilations), **dict(zip(names[kind], shapes, strict=True))}
        if conv not in found:
            found.append(conv)
    return found


def main() -> int:
    cudnn, lacking = Cudnn(pathlib.Path(sys.argv[1])), 0
    print(f"cuDNN {cudnn.cudnn.cudnnGetVersion()}, {H200['deviceName']}")
    for model in VISION:
        for conv in convolutions(model):
            count = cudnn.engines(conv)
            lacking += count == 0
            print(f"{model}: {conv['kind']} {conv['x']} with {conv['w']}: {count} engines", flush=True)
    print(f"{lacking} convolutions without an engine")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
