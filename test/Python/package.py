"""What the tests of the Python package share; importing it makes the package of the build folder importable."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "test" / "models"
BIN = pathlib.Path(os.environ.get("DTC_BIN", ROOT / "build" / "bin"))
PACKAGE = BIN.parent / "python"

os.environ["DTC_CALIBRATION"] = "off"  # plans must not hang on what else runs on this machine
sys.path.insert(0, str(PACKAGE))


def command(program: str, *arguments: object) -> subprocess.CompletedProcess:
    """Runs `dtc` or `dtc-run`."""
    return subprocess.run([BIN / program, *map(str, arguments)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
