"""Long calls of C++ that Control-C ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ._errors import collect_warnings, warn

Result = TypeVar("Result")


def interruptible(call: Callable[..., Result], *arguments: Any) -> Result:
    """Makes the call, which runs without the interpreter's lock. Control-C is raised at once.

    Python hears signals in its main thread alone, and only between its own instructions. So there the call runs in
    another thread. After Control-C it goes on until it is done, and nobody sees its result.
    """
    if threading.current_thread() is not threading.main_thread():
        return call(*arguments)
    ended: dict[str, Any] = {}

    def run() -> None:
        with collect_warnings() as ended["warnings"]:
            try:
                ended["result"] = call(*arguments)
            except BaseException as error:  # which the caller raises
                ended["error"] = error

    worker = threading.Thread(target=run, name="dtc", daemon=True)
    worker.start()
    worker.join()
    for text in ended["warnings"]:
        warn(text)
    if "error" in ended:
        raise ended["error"]
    return ended["result"]
