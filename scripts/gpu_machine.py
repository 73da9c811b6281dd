"""The machine with GPUs, for gpu_tests.py: its libraries, its GPUs, and commands that end in time.

    gpu_machine.py LIBRARIES     the names of the GPUs that the driver sees, as JSON
"""

import contextlib
import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from gpu_page import TIME_OVER

HERE = pathlib.Path(__file__).resolve().parent
LATE = 124  # as `timeout` exits


def link_cuda(folder: pathlib.Path) -> None:
    """Links of the libraries that PyTorch's packages and the toolkit bring, for dtc-run to find."""
    patterns = [f"{place}/nvidia/*/lib" for place in sys.path if place] + ["/usr/local/cuda*/lib64"]
    for base in glob.glob("/usr/local/lib/python3*/*-packages") + glob.glob("/opt/*/lib/python3*/site-packages"):
        patterns.append(f"{base}/nvidia/*/lib")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for pattern in patterns:
        for path in sorted(glob.glob(f"{pattern}/lib*.so*")):
            link = folder / pathlib.Path(path).name
            if re.match(r"lib(cublas|cudnn|nccl|nvrtc|nvJitLink)", link.name) and not link.exists():
                link.symlink_to(path)


def find_gpus(libraries: str) -> list[str]:
    """As the driver names them; none where there is no driver."""
    for path in (os.path.join(libraries, "libcuda.so.1"), "libcuda.so.1"):
        try:
            driver = ctypes.CDLL(path)
            break
        except OSError:
            continue
    else:
        return []
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    names = []
    for ordinal in range(count.value):
        text = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(text, 255, ordinal)
        names.append(text.value.decode())
    return names


def last_line(text: str) -> str:
    errors = [line for line in text.splitlines() if "error" in line.lower()]
    lines = errors or text.splitlines() or [""]
    return lines[-1].strip()[:200].replace("|", "/")


class Shares:
    """Seconds for each part. Of a call's limit a part has the share of its weight in what is left for it and for the later ones.
    So what one part doesn't take is theirs, and one that hangs can't take theirs. Without a limit each part has its weight."""

    def __init__(self, weights: dict[str, float], limit: float | None, begun: float, clock=time.monotonic):
        self.weights, self.clock = dict(weights), clock
        self.end = None if limit is None else begun + limit

    def begin(self, part: str) -> float:
        """The seconds of a part that begins now. Parts are begun in the order of their weights."""
        whole = sum(self.weights.values())
        weight = self.weights.pop(part)
        return weight if self.end is None else max(0.0, self.end - self.clock()) * weight / whole


class Machine:
    """What runs commands here, until a part's time is over."""

    def __init__(self, output: pathlib.Path):
        self.output = output
        given = os.environ.get("DTC_CUDA_LIBRARY_PATH")
        self.libraries = given or str(HERE / "cuda")
        if not given:
            link_cuda(HERE / "cuda")
        self.environment = os.environ | {
            "DTC_CUDA_LIBRARY_PATH": self.libraries, "DTC_TEST_PTX": str(HERE / "bin" / "TestKernels.ptx"),
            "LD_LIBRARY_PATH": ":".join([str(HERE / "lib"), self.libraries, os.environ.get("LD_LIBRARY_PATH", "")])}
        self.end = time.monotonic()
        # In a process of its own: what a driver does at the end of this one is no test.
        asked = subprocess.run([sys.executable, HERE / "gpu_machine.py", self.libraries], capture_output=True, text=True, timeout=60)
        self.gpus = json.loads(asked.stdout) if asked.returncode == 0 else []

    def begin_part(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @contextlib.contextmanager
    def for_seconds(self, seconds: float):
        """What runs inside has so many, and the part its own time again."""
        end, self.end = self.end, time.monotonic() + seconds
        try:
            yield
        finally:
            self.end = end

    def seconds_left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def beside(self, name: str) -> pathlib.Path:
        """A file beside the page."""
        return self.output.with_suffix(f".{name}")

    def run(self, *command: object, most: float = 1e9) -> tuple[int, str]:
        """Exit code and all that was said; LATE where the part's time is over, or `most` seconds are. What the command started
        ends with it, as it would hold the GPU."""
        left = min(most, self.end - time.monotonic())
        if left <= 0:
            return LATE, ""
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", env=self.environment, cwd=HERE, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            said = process.communicate(timeout=left)[0]
            return process.returncode, said
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return LATE, process.communicate()[0] or ""

    def ended(self, code: int, said: str) -> tuple[bool | None, str]:
        """What a command that failed is told as. One that the part's time cut off says nothing."""
        if code == LATE and self.is_late():
            return None, TIME_OVER
        why = "it didn't end in time" if code == LATE else f"exit code {code}"
        return False, f"{why}: {last_line(said)}" if said.strip() else why

    def is_late(self) -> bool:
        return time.monotonic() >= self.end

    def is_emulated(self) -> bool:
        return any("emulated" in name.lower() for name in self.gpus)


if __name__ == "__main__":
    print(json.dumps(find_gpus(sys.argv[1])))
