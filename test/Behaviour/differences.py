"""What differs between two records."""

from __future__ import annotations

from collections.abc import Iterator

#: What may have gone wrong while a record was made.
TROUBLE = {"failed": "failed while the later record was made", "unsteady": "computed two things in the later record"}


def differences(before: object, after: object, path: str = "") -> Iterator[str]:
    """Where two values of JSON differ, a line each."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            place = f"{path}.{key}" if path else key
            if key not in before:
                yield f"{place}: is new: {short(after[key])}"
            elif key not in after:
                yield f"{place}: is gone, was {short(before[key])}"
            else:
                yield from differences(before[key], after[key], place)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{path}: {len(before)} elements -> {len(after)}"
        for index, (old, new) in enumerate(zip(before, after)):
            yield from differences(old, new, f"{path}[{index}]")
    elif before != after or type(before) is not type(after):
        yield f"{path}: {short(before)} -> {short(after)}"


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


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
    news = [f"{words}: {name}" for key, words in TROUBLE.items() for name in after[key] if name not in before[key]]
    print("".join(f"{line}\n" for line in news), end="")
    print(f"{changed} of {len(old)} entries differ; {len(new.keys() - old.keys())} are new")
    return 1 if changed or news or not old else 0
