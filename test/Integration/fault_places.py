"""Where faults can be planted, counted from a program's text alone.

`verify-mutants` looks for such places in the program itself, and says how many it found. What it plants at some changes nothing:
of x + y the operands may be exchanged. So here it is also counted where it must change something, by what kernels compute.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable

TYPE = re.compile(r"tensor<[^<>]*>")
VALUE = re.compile(r"%\w+(?:#\d+)?")
MODULE = re.compile(r"^ *module\b", re.M)
FUNCTION = re.compile(r"^ *func\.func\b", re.M)
KERNEL = re.compile(r"exec\.kernel @(\S+) extent \d+ scratch \d+([^\n]*)\{\n(?: *\^bb0\(([^\n]*)\):\n)?(.*?)exec\.yield([^\n]*)\n", re.S)
LAUNCH = re.compile(r"(%\w+)(?::\d+)? = exec\.launch @([^\s(]+)\(([^)\n]*)\)[^\n]*? : \(([^\n]*?)\) -> ([^\n]*)")
RESULT = re.compile(r"(tensor<[^<>]*>)(?:(?!tensor<).)*")
COMMUTATIVE = {"arith.addf", "arith.mulf", "dtc.sum"}


def parts(text: str, start: re.Pattern) -> list[str]:
    """From each start to the next one."""
    begins = [match.start() for match in start.finditer(text)]
    return [text[begin:end] for begin, end in zip(begins, [*begins[1:], len(text)])]


@dataclasses.dataclass
class Kernel:
    """`kind`: what two must have in common so that either may be launched with the other's tensors."""

    kind: tuple
    arguments: list[str]
    lines: list[str]
    results: list[str]

    def computed(self, order: dict[int, int] = {}) -> list[int]:
        """Numbers that are equal where the same is computed, with the arguments in another order."""
        known = {name: hash(order.get(i, i)) for i, name in enumerate(self.arguments)}
        for line in self.lines:
            made, _, op = line.partition(" = ")
            operands = [known[name] for name in VALUE.findall(op)]
            if op.split()[0] in COMMUTATIVE:
                operands.sort()
            number = hash((VALUE.sub("", op), tuple(operands)))
            name, _, count = made.partition(":")
            known[name] = number
            known |= {f"{name}#{i}": hash((number, i)) for i in range(int(count or 0))}
        return [known[name] for name in self.results]


@dataclasses.dataclass
class Launch:
    kernel: Kernel
    others: list[Kernel]  # in its module
    operands: list[tuple[str, str]]  # names and types
    results: list[tuple[int, str]]  # that are read, likewise


def kernels_of(module: str) -> dict[str, Kernel]:
    found = {}
    for name, head, arguments, body, results in KERNEL.findall(module):
        pieces = re.search(r"pieces (\d+)", head)
        kind = ("flat" in head.split(), pieces and pieces[1], TYPE.findall(arguments), TYPE.findall(results))
        found[name] = Kernel(kind, VALUE.findall(arguments), [line.strip() for line in body.strip().splitlines()], VALUE.findall(results))
    return found


@functools.lru_cache(maxsize=1)
def launches(program: str) -> list[Launch]:
    found = []
    for module in parts(program, MODULE):
        kernels = kernels_of(module)
        for function in parts(module, FUNCTION):
            values = set(VALUE.findall(function))
            for result, name, operands, types, made in LAUNCH.findall(function):
                kernel = kernels[name]
                found.append(Launch(kernel, [other for other in kernels.values() if other is not kernel and other.kind == kernel.kind],
                                    list(zip(VALUE.findall(operands), TYPE.findall(types), strict=True)),
                                    [(i, kind) for i, kind in enumerate(TYPE.findall(made)) if f"{result}#{i}" in values]))
    return found


def alike(values: list[tuple]) -> list[tuple[int, int]]:
    """Which two have one type and aren't one."""
    pairs = itertools.combinations(range(len(values)), 2)
    return [(i, j) for i, j in pairs if values[i][0] != values[j][0] and values[i][1:] == values[j][1:]]


#: For each place of a kind, whether a fault changes there what is computed. That takes a while, and is asked for seldom.
Places = list[Callable[[], bool]]


def other_kernels(program: str) -> Places:
    return [lambda own=launch.kernel, other=other: own.computed() != other.computed()
            for launch in launches(program) for other in launch.others]


def exchanged_operands(program: str) -> Places:
    return [lambda own=launch.kernel, i=i, j=j: own.computed() != own.computed({i: j, j: i})
            for launch in launches(program) for i, j in alike(launch.operands)]


def exchanged_results(program: str) -> Places:
    def differ(own: Kernel, first: int, second: int) -> bool:
        computed = own.computed()
        return computed[first] != computed[second]
    return [functools.partial(differ, launch.kernel, launch.results[i][0], launch.results[j][0])
            for launch in launches(program) for i, j in alike(launch.results)]


def swapped_gradients(program: str) -> Places:
    places = []
    for function in parts(program, FUNCTION):
        head, _, body = function.partition("\n")
        results = RESULT.finditer(head.partition(") -> ")[2])
        returned = VALUE.findall(re.findall(r"^ *return\b([^\n:]*)", body, re.M)[-1])
        gradients = [(name, result[1]) for name, result in zip(returned, results, strict=True) if "dtc.role<gradient," in result[0]]
        places += [lambda: True] * len(alike(gradients))
    return places


#: By kind: in which of the two programs, and its places there.
PLACES: dict[str, tuple[str, Callable[[str], Places]]] = {
    "kernel of another place": ("formed", other_kernels),
    "exchanged operands of a kernel": ("formed", exchanged_operands),
    "exchanged results of a kernel": ("formed", exchanged_results),
    "swapped gradients": ("step", swapped_gradients),
}
