"""A GPU's properties as cuDNN describes them, for its planner where there is no GPU: the part `planner` of gpu_tests.py.

    gpu_planner.py LIBRARIES     the first GPU's, as JSON
"""

import ctypes
import pathlib
import sys

# Of cudnn_graph_v9.h: a descriptor of a device's properties, its attributes, and their types.
PROPERTIES, DEVICE, TEXT = 38, 2700, 2702
INT32, CHAR = 23, 24


def main() -> None:
    library = pathlib.Path(sys.argv[1], "libcudnn.so.9")
    cudnn = ctypes.CDLL(str(library) if library.exists() else library.name)

    def call(name: str, *arguments: object) -> None:
        if code := getattr(cudnn, f"cudnnBackend{name}")(*arguments):
            raise SystemExit(f"cudnnBackend{name}: error {code}")

    device, count = ctypes.c_void_p(), ctypes.c_int64()
    call("CreateDescriptor", PROPERTIES, ctypes.byref(device))
    call("SetAttribute", device, DEVICE, INT32, ctypes.c_int64(1), ctypes.byref(ctypes.c_int32(0)))
    call("Finalize", device)
    call("GetAttribute", device, TEXT, CHAR, ctypes.c_int64(0), ctypes.byref(count), None)
    text = ctypes.create_string_buffer(count.value + 1)
    call("GetAttribute", device, TEXT, CHAR, count, ctypes.byref(count), text)
    print(text.value.decode())


if __name__ == "__main__":
    main()
