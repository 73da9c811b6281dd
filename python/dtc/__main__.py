"""`python -m dtc`: the command line; `python -m dtc run` is `dtc-run`, `python -m dtc watch` shows a run.

`python -m dtc hf` takes models of Hugging Face in and out."""

import os
import sys


def main(arguments: list[str]) -> int:
    """Runs a command and returns its exit code."""
    if arguments[:1] == ["calibrate"]:
        # What is measured must wait as the ranks' threads do; libgomp reads this when it is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if arguments[:1] == ["watch"]:
        from . import _watch
        return _watch.main(arguments[1:])
    if arguments[:1] == ["hf"]:
        from . import hf
        return hf.main(arguments[1:])
    os.environ.setdefault("DTC_PYTHON", sys.executable)  # which writes the models of --hf
    from . import _dtc
    if arguments[:1] == ["run"]:
        return _dtc.run_main(["dtc-run", *arguments[1:]])
    return _dtc.main(["dtc", *arguments])


def entry() -> None:
    """The program `dtc` of the wheel."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    entry()
