#!/usr/bin/env python3
"""Writes docs/PythonReference.md from the docstrings of the package dtc.

    PYTHONPATH=build/python build/venv/bin/python scripts/python_reference.py > docs/PythonReference.md
"""

from __future__ import annotations

import dataclasses
import inspect
import re

import dtc

_HEAD = """# Python reference

This page has every name of the package `dtc`, from its docstrings. [Python.md](Python.md) shows how they are used.

`scripts/python_reference.py` writes this page, and a test compares the two.
"""

# What a class of C++ has beside its own names.
_OF_NANOBIND = re.compile(r"^_")


def _parameter(each: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(each.kind, "")
    text = f"{stars}{each.name}: {each.annotation}"
    return text if each.default is inspect.Parameter.empty else f"{text} = {each.default!r}"


def _signature(name: str, call: object) -> str:
    """One parameter a line where the whole is long; of a method without its object."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # of C++
        return f"{name}(...)"
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    marked = []
    for each in parameters:
        if each.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in marked:
            marked.append("*")
        marked.append(_parameter(each))
        if each.kind is inspect.Parameter.POSITIONAL_ONLY:
            marked.append("/")
    back = "" if signature.return_annotation is inspect.Signature.empty else f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(marked)}){back}"
    return line if len(line) <= 110 else "\n".join([f"{name}(", *(f"    {each}," for each in marked), f"){back}"])


def _code(text: str) -> str:
    return f"```\n{text}\n```"


def _doc(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def _members(kind: type) -> list[str]:
    """Methods and properties in the order of the source; of a dataclass its fields first."""
    parts = []
    if dataclasses.is_dataclass(kind):
        fields = ", ".join(f"`{each.name}: {each.type}`" for each in dataclasses.fields(kind))
        parts.append(f"Fields: {fields}")
    for name, member in vars(kind).items():
        if _OF_NANOBIND.match(name):
            continue
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            parts.append(f"**`.{name}`** {_doc(member)}")
        elif isinstance(member, staticmethod):
            parts.append(f"{_code(_signature(f'{kind.__name__}.{name}', member.__func__))}\n{_doc(member.__func__)}")
        elif inspect.isfunction(member):
            parts.append(f"{_code(_signature(f'.{name}', member))}\n{_doc(member)}")
    return parts


def _described(name: str, thing: object) -> str:
    if not inspect.isclass(thing):
        return f"### {name}\n\n{_code(_signature(f'dtc.{name}', thing))}\n\n{_doc(thing)}\n"
    if issubclass(thing, Exception):
        bases = ", ".join(base.__name__ for base in thing.__bases__)
        return f"### {name}\n\nAn exception, derived from {bases}. {_doc(thing)}\n"
    parts = [f"### {name}", _doc(thing), *_members(thing)]
    return "\n\n".join(part for part in parts if part) + "\n"


def page() -> str:
    """The page as it should be."""
    functions = [name for name in dtc.__all__ if not inspect.isclass(getattr(dtc, name))]
    errors = [name for name in dtc.__all__ if name not in functions and issubclass(getattr(dtc, name), Exception)]
    classes = [name for name in dtc.__all__ if name not in functions and name not in errors]
    text = _HEAD
    for title, names in (("Functions", functions), ("Classes", classes), ("Exceptions", errors)):
        text += f"\n## {title}\n\n" + "\n".join(_described(name, getattr(dtc, name)) for name in sorted(names))
    return text


if __name__ == "__main__":
    print(page(), end="")
