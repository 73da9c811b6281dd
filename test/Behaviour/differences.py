"""What differs between two records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

#: What may have gone wrong while a record was made.
TROUBLE = {"failed": "failed while the later record was made", "unsteady": "computed two things in the later record"}


@dataclasses.dataclass(frozen=True)
class Change:
    """One place where two values of JSON differ; of lists of two lengths, these are what differs."""

    path: str
    kind: str  # new, gone, elements or value
    before: object = None
    after: object = None

    def line(self) -> str:
        old, new = short(self.before), short(self.after)
        words = {"new": f"is new: {new}", "gone": f"is gone, was {old}", "elements": f"{old} elements -> {new}",
                 "value": f"{old} -> {new}"}
        return f"{self.path}: {words[self.kind]}"


def changes(before: object, after: object, path: str = "") -> Iterator[Change]:
    """Where two values of JSON differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            place = f"{path}.{key}" if path else key
            if key not in before:
                yield Change(place, "new", after=after[key])
            elif key not in after:
                yield Change(place, "gone", before=before[key])
            else:
                yield from changes(before[key], after[key], place)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield Change(path, "elements", len(before), len(after))
        for index, (old, new) in enumerate(zip(before, after)):
            yield from changes(old, new, f"{path}[{index}]")
    elif before != after or type(before) is not type(after):
        yield Change(path, "value", before, after)


def differences(before: object, after: object) -> Iterator[str]:
    """Where two values of JSON differ, a line each."""
    return (change.line() for change in changes(before, after))


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def troubles(before: dict, after: dict) -> list[str]:
    """Prints and returns what has gone wrong in the later record alone. Records of old binaries may not know each kind."""
    news = [f"{words}: {name}" for key, words in TROUBLE.items() for name in after.get(key, ())
            if name not in before.get(key, ())]
    print("".join(f"{line}\n" for line in news), end="")
    return news


def report(before: dict, after: dict, most: int) -> int:
    """Prints what differs between two records, at most so many lines an entry. Returns the exit code. Entries that only
    the later record has are counted, since new tests add them; all else is a difference."""
    old, new = before["entries"], after["entries"]
    changed = 0
    for name, entry in old.items():
        if name not in new:
            lines = ["is missing in the later record"]
        else:
            lines = list(differences(entry["value"], new[name]["value"]))
        if lines:
            changed += 1
            print(f"{name}\n  ({entry['test']})")
            print("\n".join(f"  {line}" for line in lines[:most]))
            if len(lines) > most:
                print(f"  and {len(lines) - most} more")
    news = troubles(before, after)
    print(f"{changed} of {len(old)} entries differ; {len(new.keys() - old.keys())} are new")
    return 1 if changed or news or not old else 0
