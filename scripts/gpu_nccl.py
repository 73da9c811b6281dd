"""NCCL with one rank: the part `nccl` of gpu_tests.py. dtc-run itself calls NCCL where ranks have a GPU each.

    gpu_nccl.py LIBRARIES     a line of JSON for each check

A communicator is begun, split, recorded, ended and aborted as dtc-run does it (lib/Runtime/CUDA/NcclGroup.cpp), without blocking. Collectives and
messages are called with the numbers of include/dtc-cuda/Nccl.h. Those of one rank give what they were given: a type or an
argument that NCCL takes for another gives other bytes.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import struct
import sys
import threading
import time

UNSET = -2**31
SUCCESS, IN_PROGRESS = 0, 7
SUM, MAX = 0, 2
# Types that dtc sums: NCCL's number, and numbers that are exact in it.
TYPES = {"int8": (0, struct.pack("<8b", *range(-4, 4))), "int32": (2, struct.pack("<8i", *range(-4, 4))),
         "int64": (4, struct.pack("<8q", *range(-2**40, -2**40 + 8))), "fp16": (6, struct.pack("<8e", *range(8))),
         "fp32": (7, struct.pack("<8f", *range(8))), "fp64": (8, struct.pack("<8d", *range(8))),
         "bf16": (9, b"".join(struct.pack("<f", value)[2:] for value in range(8)))}
BYTES = 1
THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
USE_NODE_PRIORITY = 8  # CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
NON_BLOCKING, DISABLE_TIMING = 1, 2  # flags of streams and events


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Config(ctypes.Structure):
    """ncclConfig_t as dtc-run knows it, of NCCL 2.18."""

    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", ctypes.c_int),
                ("cga", ctypes.c_int), ("least", ctypes.c_int), ("most", ctypes.c_int), ("net", ctypes.c_char_p), ("share", ctypes.c_int)]

    def __init__(self) -> None:
        super().__init__(ctypes.sizeof(Config), 0xCAFEBEEF, 21800, 0, UNSET, UNSET, UNSET, None, UNSET)


def opened(libraries: str, name: str) -> ctypes.CDLL:
    path = pathlib.Path(libraries, name)
    return ctypes.CDLL(str(path) if path.exists() else name)


class Rank:
    """The only rank, on the first GPU."""

    def __init__(self, libraries: str) -> None:
        self.driver, self.nccl = opened(libraries, "libcuda.so.1"), opened(libraries, "libnccl.so.2")
        self.nccl.ncclGetErrorString.restype = ctypes.c_char_p
        device, context, self.stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.drive("cuInit", 0)
        self.drive("cuDeviceGet", ctypes.byref(device), 0)
        self.drive("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.drive("cuCtxSetCurrent", context)
        self.drive("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)
        self.source, self.target, self.second = (ctypes.c_uint64() for _ in range(3))
        for buffer in (self.source, self.target, self.second):
            self.drive("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(256))
        self.comm = ctypes.c_void_p()

    def drive(self, name: str, *arguments: object) -> None:
        if code := getattr(self.driver, name)(*arguments):
            raise RuntimeError(f"{name}: error {code}")

    def call(self, name: str, *arguments: object, comm: ctypes.c_void_p | None = None) -> None:
        """Waits until the call is done: the communicator doesn't block."""
        code = getattr(self.nccl, name)(*arguments)
        while code == IN_PROGRESS and comm is not None:
            time.sleep(0.001)
            state = ctypes.c_int()
            self.check("ncclCommGetAsyncError", self.nccl.ncclCommGetAsyncError(comm, ctypes.byref(state)))
            code = state.value
        self.check(name, code)

    def check(self, name: str, code: int) -> None:
        if code != SUCCESS:
            raise RuntimeError(f"{name}: {self.nccl.ncclGetErrorString(code).decode()}")

    def moved(self, data: bytes, exchange) -> bytes:
        """What an exchange leaves in the target."""
        size = ctypes.c_size_t(len(data))
        self.drive("cuMemcpyHtoDAsync_v2", self.source, data, size, self.stream)
        self.drive("cuMemsetD8Async", self.target, ctypes.c_ubyte(0xEE), ctypes.c_size_t(256), self.stream)
        exchange()
        found = ctypes.create_string_buffer(len(data))
        self.drive("cuMemcpyDtoHAsync_v2", found, self.target, size, self.stream)
        self.drive("cuStreamSynchronize", self.stream)
        return found.raw


def begin(rank: Rank) -> str:
    version, name = ctypes.c_int(), UniqueId()
    rank.call("ncclGetVersion", ctypes.byref(version))
    rank.call("ncclGetUniqueId", ctypes.byref(name))
    rank.comm = ctypes.c_void_p()
    code = rank.nccl.ncclCommInitRankConfig(ctypes.byref(rank.comm), 1, name, 0, ctypes.byref(Config()))
    settle(rank, "ncclCommInitRankConfig", code, rank.comm)
    return f"NCCL {version.value}"


def settle(rank: Rank, name: str, code: int, comm: ctypes.c_void_p) -> None:
    """A communicator that doesn't block is ready later, also after a call that succeeded."""
    rank.check(name, SUCCESS if code == IN_PROGRESS else code)
    state = ctypes.c_int(IN_PROGRESS)
    while state.value == IN_PROGRESS:
        rank.check("ncclCommGetAsyncError", rank.nccl.ncclCommGetAsyncError(comm, ctypes.byref(state)))
        time.sleep(0.001)
    rank.check(name, state.value)


@contextlib.contextmanager
def child(rank: Rank):
    """A communicator that the rank's is split into."""
    made = ctypes.c_void_p()
    settle(rank, "ncclCommSplit", rank.nccl.ncclCommSplit(rank.comm, 0, 0, ctypes.byref(made), ctypes.byref(Config())), rank.comm)
    yield made
    rank.call("ncclCommDestroy", made, comm=made)


def split(rank: Rank) -> str:
    parent = rank.comm
    with child(rank) as rank.comm:
        same(rank, "all_reduce", "fp32")
    rank.comm = parent
    return "its child sums, and ends"


def send(rank: Rank, size: int, comm: ctypes.c_void_p, stream: ctypes.c_void_p, target: ctypes.c_uint64) -> None:
    """What lies in the source, to itself."""
    rank.call("ncclGroupStart")
    for name, buffer in (("ncclSend", rank.source), ("ncclRecv", target)):
        rank.call(name, buffer, ctypes.c_size_t(size), BYTES, 0, comm, stream, comm=comm)
    rank.call("ncclGroupEnd", comm=comm)


def message(rank: Rank, size: int) -> None:
    send(rank, size, rank.comm, rank.stream, rank.target)


@contextlib.contextmanager
def captured(rank: Rank, issue):
    """A graph of what is issued, as dtc-run captures a step."""
    graph, made = ctypes.c_void_p(), ctypes.c_void_p()
    rank.drive("cuStreamBeginCapture_v2", rank.stream, THREAD_LOCAL)
    issue()
    rank.drive("cuStreamEndCapture", rank.stream, ctypes.byref(graph))
    rank.drive("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(USE_NODE_PRIORITY))
    rank.drive("cuGraphDestroy", graph)
    yield made
    rank.drive("cuGraphExecDestroy", made)


def captured_message(rank: Rank, size: int):
    return captured(rank, lambda: message(rank, size))


def recorded(rank: Rank) -> str:
    _, data = TYPES["fp32"]
    with captured_message(rank, len(data)) as graph:
        for _ in range(2):
            if rank.moved(data, lambda: rank.drive("cuGraphLaunch", graph, rank.stream)) != data:
                raise RuntimeError("the graph sends other bytes")
    return "twice, by a graph"


def recorded_twice(rank: Rank) -> str:
    """Two communicators in a graph, each on a stream. NCCL is to launch their calls in the order in which they were captured."""
    _, data = TYPES["fp32"]
    size, other, begun, ended = len(data), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    rank.drive("cuStreamCreate", ctypes.byref(other), NON_BLOCKING)
    for event in (begun, ended):
        rank.drive("cuEventCreate", ctypes.byref(event), DISABLE_TIMING)
    with child(rank) as second:

        def issue() -> None:
            rank.drive("cuEventRecord", begun, rank.stream)
            rank.drive("cuStreamWaitEvent", other, begun, 0)
            send(rank, size, second, other, rank.second)
            message(rank, size)
            rank.drive("cuEventRecord", ended, other)
            rank.drive("cuStreamWaitEvent", rank.stream, ended, 0)

        issue()  # as a first step, in which ranks connect
        found = ctypes.create_string_buffer(size)
        with captured(rank, issue) as graph:
            for _ in range(2):
                if rank.moved(data, lambda: rank.drive("cuGraphLaunch", graph, rank.stream)) != data:
                    raise RuntimeError("the graph sends other bytes on the first communicator")
                rank.drive("cuMemcpyDtoHAsync_v2", found, rank.second, ctypes.c_size_t(size), rank.stream)
                rank.drive("cuStreamSynchronize", rank.stream)
                if found.raw != data:
                    raise RuntimeError("the graph sends other bytes on the second communicator")
    return "twice, by a graph"


def aborted(rank: Rank) -> str:
    """dtc-run expects that an abort doesn't end before the graphs, and that it does then."""
    with captured_message(rank, 8):
        abort = threading.Thread(target=rank.nccl.ncclCommAbort, args=(rank.comm,), daemon=True)
        abort.start()
        abort.join(0.5)
        waits = abort.is_alive()
    abort.join(5)
    if abort.is_alive():
        raise RuntimeError("an abort doesn't end although its graph is gone")
    return "ends after its graph" if waits else "ends before its graph"


def same(rank: Rank, kind: str, element: str) -> str:
    """A collective of one rank gives its own numbers."""
    number, data = TYPES[element]
    count = ctypes.c_size_t(8)

    def exchange() -> None:
        common = (rank.comm, rank.stream)
        if kind == "all_reduce":
            rank.call("ncclAllReduce", rank.source, rank.target, count, number, SUM, *common, comm=rank.comm)
        elif kind == "maximum":
            rank.call("ncclAllReduce", rank.source, rank.target, count, number, MAX, *common, comm=rank.comm)
        elif kind == "reduce_scatter":
            rank.call("ncclReduceScatter", rank.source, rank.target, count, number, SUM, *common, comm=rank.comm)
        elif kind == "all_gather":
            rank.call("ncclAllGather", rank.source, rank.target, ctypes.c_size_t(len(data)), BYTES, *common, comm=rank.comm)
        else:
            message(rank, len(data))

    found = rank.moved(data, exchange)
    if found != data:
        raise RuntimeError(f"{found.hex()} instead of {data.hex()}")
    return f"{len(data)} bytes"


def end(rank: Rank) -> str:
    rank.call("ncclCommDestroy", rank.comm, comm=rank.comm)
    return "destroyed"


CHECKS = {"begin": begin, **{f"all_reduce of {element}": lambda rank, element=element: same(rank, "all_reduce", element) for element in TYPES},
          **{kind: lambda rank, kind=kind: same(rank, kind, "fp32") for kind in ("maximum", "reduce_scatter", "all_gather", "message")},
          "split": split, "record": recorded, "record two communicators": recorded_twice, "end": end, "begin again": begin, "abort": aborted}


def rows(machine, script: pathlib.Path):
    """Each check; a process of its own makes them, as one that hangs must not end the call."""
    code, said = machine.run(sys.executable, script, machine.libraries, most=60)
    found = {line["check"]: line for line in map(json.loads, (text for text in said.splitlines() if text.startswith("{")))}
    for name in CHECKS:
        if name in found:
            yield name, found[name]["passed"], found[name]["text"]
    missing = [name for name in CHECKS if name not in found]
    if missing:
        yield (missing[0], *machine.ended(code, said))
    for name in missing[1:]:
        yield name, None, f"after {missing[0]}"


def main() -> None:
    os.environ.setdefault("NCCL_LAUNCH_ORDER_IMPLICIT", "1")  # as dtc-run
    rank = Rank(sys.argv[1])
    for name, check in CHECKS.items():
        try:
            passed, text = True, check(rank)
        except (RuntimeError, AttributeError) as error:
            passed, text = False, str(error)
        print(json.dumps({"check": name, "passed": passed, "text": text}), flush=True)
        if name == "begin" and not passed:
            break


if __name__ == "__main__":
    main()
