"""Arrays by name in a safetensors file, bfloat16 and booleans among them."""

import json
import pathlib

import ml_dtypes
import numpy

NAMES = {
    "F64": numpy.float64, "F32": numpy.float32, "F16": numpy.float16, "BF16": ml_dtypes.bfloat16,
    "I64": numpy.int64, "I32": numpy.int32, "I16": numpy.int16, "I8": numpy.int8, "BOOL": numpy.bool_,
    "U64": numpy.uint64, "U32": numpy.uint32, "U16": numpy.uint16, "U8": numpy.uint8,
}
CODES = {numpy.dtype(kind): name for name, kind in NAMES.items()}


def save(arrays: dict[str, numpy.ndarray], path: pathlib.Path) -> None:
    header, data = {}, b""
    for name, array in arrays.items():
        code, raw = CODES[array.dtype], array.tobytes()
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def load(path: pathlib.Path) -> dict[str, numpy.ndarray]:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    arrays = {}
    for name, entry in json.loads(content[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            arrays[name] = numpy.frombuffer(content[begin:end], NAMES[entry["dtype"]]).reshape(entry["shape"])
    return arrays
