"""What differs between two records, by its place: one line for each member of an answer, over all entries.

    arena_bytes[]: 212 entries, 301 fall, 88 rise by up to 12.4 %, as in compile mlp.onnx: arena_bytes[0]: 1024 -> 960

A change that is wanted shows in a few places of many entries, each of which is then looked at once.
"""

from __future__ import annotations

import collections
import dataclasses
import re

import differences

#: These have a key for each tensor of a model.
TENSORS = {"save-weights", "outputs"}


@dataclasses.dataclass
class Place:
    """What differs at one place."""

    example: str
    entries: set[str] = dataclasses.field(default_factory=set)
    kinds: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    largest: float = 0

    def add(self, entry: str, change: differences.Change) -> None:
        self.entries.add(entry)
        old, new = change.before, change.after
        if change.kind in ("new", "gone"):
            self.kinds[change.kind] += 1
        elif isinstance(old, (int, float)) and isinstance(new, (int, float)) and old != new:
            self.kinds["rise" if new > old else "fall"] += 1
            self.largest = max(self.largest, abs(new - old) / max(abs(old), abs(new)))
        else:
            self.kinds["differ"] += 1

    def line(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        far = f" by up to {100 * self.largest:.3g} %" if self.largest else ""
        return f"{len(self.entries)} entries, {kinds}{far}, as in {self.example}"


def countable(value: object) -> object:
    """Lists of kernels, as the number of each kind: a new one renumbers all that follow."""
    if isinstance(value, dict):
        return {key: countable(member) for key, member in value.items()}
    if isinstance(value, list) and value and all(isinstance(kernel, dict) and set(kernel) == {"name", "arch"}
                                                 for kernel in value):
        return dict(collections.Counter(re.sub(r"_\d+$", "", kernel["name"]) for kernel in value))
    return value


def place_of(path: str) -> str:
    """A path without indices of lists and names of tensors."""
    first = path.split(".")[0]
    return f"{first}.TENSOR" if first in TENSORS else re.sub(r"\[\d+\]", "[]", path)


def by_place(before: dict, after: dict) -> dict[str, Place]:
    """What differs between two records; an entry that only one of them has is told elsewhere."""
    found: dict[str, Place] = {}
    for name in before["entries"]:
        if name not in after["entries"]:
            continue
        old, new = (countable(record["entries"][name]["value"]) for record in (before, after))
        for change in differences.changes(old, new):
            found.setdefault(place_of(change.path), Place(f"{name}: {change.line()}")).add(name, change)
    return found


def report(before: dict, after: dict) -> int:
    """Prints a line for each place where something differs, and how many entries are equal. Returns the exit code."""
    old, new = before["entries"], after["entries"]
    for place, what in sorted(by_place(before, after).items()):
        print(f"{place}: {what.line()}")
    for name in sorted(old.keys() - new.keys()):
        print(f"is missing in the later record: {name}")
    equal = sum(name in new and entry["value"] == new[name]["value"] for name, entry in old.items())
    news = differences.troubles(before, after)
    print(f"{equal} of {len(old)} entries are equal; {len(new.keys() - old.keys())} are new")
    return 0 if old and equal == len(old) and not news else 1
