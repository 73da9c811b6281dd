"""What goes wrong, with the text and the exit code that the command line has for it."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Iterator


class Error(Exception):
    """A call failed. The text is what the command line prints."""

    exit_code: int = 1


class UsageError(Error, ValueError):
    """The request can't be meant: an unknown name, a number out of range."""

    exit_code = 2


class InputError(Error):
    """A model, a data set, a batch or another file was refused."""

    exit_code = 3


class UnsupportedError(InputError):
    """The input is sound, but has what this version of dtc doesn't take: an operator, a form of one, a type."""


class PlanError(Error):
    """No plan fits, or the program doesn't fit this machine."""

    exit_code = 4


class RankLostError(Error):
    """A rank was lost, or kept the others waiting for too long."""

    exit_code = 5


class NotFiniteError(Error, ArithmeticError):
    """The loss or the gradient is not finite."""

    exit_code = 6


class DtcWarning(UserWarning):
    """What may not be what it seems, of something that was done."""


_BY_CODE = {kind.exit_code: kind for kind in (Error, UsageError, InputError, PlanError, RankLostError, NotFiniteError)}


def error_of(code: int, text: str, is_unsupported: bool = False) -> Error:
    """The exception of an error of the C API."""
    return UnsupportedError(text) if is_unsupported else _BY_CODE.get(code, Error)(text)


_collected = threading.local()


@contextlib.contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Inside, warnings of this thread are kept for whoever has the user's program on its stack."""
    _collected.texts = []
    try:
        yield _collected.texts
    finally:
        del _collected.texts


def warn(text: str) -> None:
    """Warns at the line of the user's program that called the package."""
    texts = getattr(_collected, "texts", None)
    if texts is not None:
        texts.append(text)
        return
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "dtc":
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, DtcWarning, stacklevel=depth)
