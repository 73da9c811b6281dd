"""How many instructions of PTX the emulated GPU's interpreter carries out a second.

    python3 bench/emulator_speed.py

Launches two kernels of test/Unit/Emulator/ptx/kernels.ptx: one elementwise with accesses of 16 bytes, and one that adds up rows in
shared memory. An instruction counts once for each thread. Prints millions of them for each processor second, the best of five runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: By kernel: blocks, threads of a block, bytes that it reads and that it writes.
KERNELS = {"elementwise": (4096, 96, 4096 * 96 * 16, 4096 * 96 * 16), "row_sum": (2000, 128, 2000 * 1000 * 2, 2000 * 4)}
RUNS = 5


class Gpu:
    def __init__(self) -> None:
        self.driver = ctypes.CDLL(str(ROOT / "build" / "lib" / "gpu-emulator" / "libcuda.so.1"))
        context, self.module, self.stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        text = (ROOT / "test" / "Unit" / "Emulator" / "ptx" / "kernels.ptx").read_bytes()
        self.call("cuModuleLoadDataEx", ctypes.byref(self.module), ctypes.c_char_p(text), 0, None, None)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name: str, *arguments: object) -> None:
        if code := getattr(self.driver, name)(*arguments):
            raise RuntimeError(f"{name}: error {code}")

    def buffer(self, size: int) -> ctypes.c_uint64:
        """Of ones in bf16."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.call("cuMemsetD32Async", address, ctypes.c_uint(0x3F803F80), ctypes.c_size_t(size // 4), self.stream)
        return address

    def seconds(self, name: str) -> float:
        """Of all processors, for one launch."""
        blocks, threads, read, written = KERNELS[name]
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        places = [self.buffer(read), self.buffer(written)]
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(place) for place in places))
        self.call("cuStreamSynchronize", self.stream)
        begin = time.process_time()
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, self.stream, arguments, None)
        self.call("cuStreamSynchronize", self.stream)
        return time.process_time() - begin


def instructions(name: str) -> int:
    """What threads carry out in a launch: counted by a process of its own, as counting takes time."""
    with tempfile.TemporaryDirectory() as folder:
        traffic = pathlib.Path(folder, "traffic.jsonl")
        subprocess.run([sys.executable, __file__, name], check=True, env=os.environ | {"DTC_EMULATED_GPU_TRAFFIC": str(traffic)})
        return sum(json.loads(line)["instructions"] for line in traffic.read_text().splitlines())


def main() -> None:
    gpu = Gpu()
    if len(sys.argv) > 1:
        gpu.seconds(sys.argv[1])
        return
    for name in KERNELS:
        count, least = instructions(name), min(gpu.seconds(name) for _ in range(RUNS))
        print(f"{name}: {count / 1e6:.1f} million instructions in {1e3 * least:.0f} ms: {count / least / 1e6:.0f} million a second")


if __name__ == "__main__":
    main()
