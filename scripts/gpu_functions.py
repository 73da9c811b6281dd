"""How exact elementwise functions are on a GPU: the part `functions` of gpu_tests.py, and what packs it.

test/models/functions.onnx has an output for each function. Results are compared with Python's, in float64, in units of the
last place of float32, and bit by bit with the emulated GPU's.
"""

import json
import math
import os
import pathlib
import random
import struct
import subprocess

ROWS, COLUMNS = 64, 256
MOST_UNITS = 2.0


# Output, inputs, and the function in float64.
FUNCTIONS = {
    "exp": ("x", math.exp), "tanh": ("x", math.tanh), "sigmoid": ("x", lambda x: 1 / (1 + math.exp(-x))), "erf": ("x", math.erf),
    "sin": ("x", math.sin), "cos": ("x", math.cos), "atan": ("x", math.atan), "sinh": ("x", math.sinh), "cosh": ("x", math.cosh),
    "asinh": ("x", math.asinh), "log": ("p", math.log), "sqrt": ("p", math.sqrt), "reciprocal": ("p", lambda p: 1 / p),
    "asin": ("u", math.asin), "acos": ("u", math.acos), "atanh": ("u", math.atanh), "tan": ("u", math.tan), "pow": ("pu", math.pow),
}


def write_arrays(path: pathlib.Path, arrays: dict[str, list[float]]) -> None:
    head, body = {}, b""
    for name, values in arrays.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        head[name] = {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [len(body), len(body) + len(packed)]}
        body += packed
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def read_arrays(path: pathlib.Path) -> dict[str, tuple[float, ...]]:
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + size])
    return {name: struct.unpack_from(f"<{ROWS * COLUMNS}f", data, 8 + size + entry["data_offsets"][0])
            for name, entry in head.items() if name != "__metadata__"}


def units_off(got: float, exact: float) -> float:
    """How many of the last place's units of float32 lie between them; of the smallest normal number below that."""
    if math.isnan(got) or math.isinf(got):
        return math.inf
    _, exponent = math.frexp(max(abs(exact), 2.0**-126))
    return abs(got - exact) / 2.0 ** (exponent - 24)


def training(folder: pathlib.Path, outputs: pathlib.Path) -> list:
    return [folder / "functions.dtc", "--data", folder / "functions.safetensors", "--outputs", outputs]


def pack(folder: pathlib.Path, build: pathlib.Path, model: pathlib.Path) -> None:
    """The artifact, its inputs, and what the emulated GPU makes of them."""
    draw, count = random.Random(0), ROWS * COLUMNS
    write_arrays(folder / "functions.safetensors", {"x": [draw.gauss(0, 3) for _ in range(count)],
                                                    "p": [10 ** draw.uniform(-30, 30) for _ in range(count)],
                                                    "u": [draw.uniform(-1, 1) for _ in range(count)]})
    subprocess.run([build / "bin" / "dtc", "compile", model, "--loss", "none", "--target", "cuda", "--devices", "1", "--global-batch",
                    str(ROWS), "-o", folder / "functions.dtc"], check=True, capture_output=True)
    subprocess.run([build / "bin" / "dtc-run", *training(folder, folder / "functions.emulated.safetensors")], check=True,
                   capture_output=True, env=os.environ | {"DTC_CUDA_LIBRARY_PATH": str(build / "lib" / "gpu-emulator")})


def rows(machine, program: pathlib.Path, folder: pathlib.Path):
    """Of each function: name, whether it is exact enough, and how exact it is."""
    outputs = folder / "functions.out.safetensors"
    outputs.unlink(missing_ok=True)
    code, said = machine.run(program, *training(folder, outputs))
    if code:
        yield ("functions", *machine.ended(code, said))
        return
    inputs, got = read_arrays(folder / "functions.safetensors"), read_arrays(outputs)
    emulated = read_arrays(folder / "functions.emulated.safetensors")
    for name, (arguments, function) in FUNCTIONS.items():
        exact = [function(*values) for values in zip(*(inputs[argument] for argument in arguments))]
        worst = max(map(units_off, got[name], exact))
        same = sum(a == b for a, b in zip(got[name], emulated[name]))
        yield name, worst <= MOST_UNITS, (f"at most {worst:.2f} units of the last place off (bound {MOST_UNITS:g}); "
                                          f"{same} of {len(exact)} have the emulated GPU's bits")
