"""Records what the commands of the integration tests compute (test/Behaviour/behaviour.py asks for it).

Where the environment variable DTC_RECORD names a file, `conftest.call` hands every successful command to a `Recorder`,
which appends a line of JSON for each: its name, the test that gave it and what it computed. That is

- `plan ... --json`: the answer, without the time that planning took;
- `compile ... -o ARTIFACT`: what `dtc inspect --json` says of the artifact. A compilation that ends with the memory plan
  (`--emit schedule`) is done once more to its artifact;
- `run`: each step's loss and gradient norm in all digits, and the hashes of the tensors that were written.

An entry's name is the command without what differs from run to run: files that it writes are left out, files of
test/models are called by their names, other files by their content, and files that an earlier command wrote by that
command's name. So tests may be moved, renamed and divided, and entries keep their names.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import struct
import subprocess
import tempfile

#: Options whose file a command writes.
WRITES = {"-o", "--log", "--save-weights", "--outputs", "--save-plan", "--report", "--trace"}
#: Of these the name keeps the option: a plan that is saved is priced as it will be compiled.
TOLD = {"--save-plan"}
#: Times of the machine in an answer and in the lines of a log.
TIMES = {"planning_time_s", "step_time_s", "samples_per_s", "tokens_per_s"}


def digest(path: pathlib.Path) -> str:
    """The first digits of a hash of a file, or of all files in a folder."""
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            found.update(file.read_bytes())
    return found.hexdigest()[:12]


def tensors(path: pathlib.Path) -> dict[str, str]:
    """Type, shape and hash of each tensor of a safetensors file."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    header.pop("__metadata__", None)
    return {name: f"{entry['dtype']} {entry['shape']} {hashlib.sha256(body[slice(*entry['data_offsets'])]).hexdigest()[:16]}"
            for name, entry in sorted(header.items())}


def steps(log: pathlib.Path) -> list[dict]:
    """The lines of a log without the machine's times. Numbers are printed in all digits, so that equal ones are bitwise
    equal."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in lines]


def answer(text: str, names: dict[str, str] | None = None) -> object:
    """The answer of `dtc plan --json` without the times that planning took; files are called by their names."""
    def settled(value: object) -> object:
        if isinstance(value, dict):
            return {key: settled(part) for key, part in value.items() if key != "planning_time_s"}
        if isinstance(value, list):
            return [settled(part) for part in value]
        return (names or {}).get(value, value) if isinstance(value, str) else value

    return settled(json.loads(text))


class Recorder:
    def __init__(self, record: pathlib.Path, binaries: pathlib.Path, models: pathlib.Path) -> None:
        self.record = record
        self.binaries = binaries
        self.models = models
        #: By file that a command wrote: its digest then, and what it is called.
        self.written: dict[pathlib.Path, tuple[str, str]] = {}
        #: Files of what was measured on this machine, which differ each time: commands that read them aren't recorded.
        self.measured: set[pathlib.Path] = set()

    def add(self, program: str, arguments: list[str], out: str, folder: pathlib.Path) -> None:
        """Records a command that was given in `folder`, ended well and printed `out`."""
        command = "run" if program == "dtc-run" else arguments[0]
        given = arguments if program == "dtc-run" else without_emit_schedule(arguments[1:])
        outputs = {flag: folder / value for flag, value in zip(given, given[1:]) if flag in WRITES}
        if command == "calibrate":
            self.measured.update(path.resolve() for path in outputs.values())
        if command == "calibrate" or any((folder / argument).resolve() in self.measured for argument in given):
            return
        name = " ".join([command, *self.words(given, folder)])
        value = self.value(command, given, out, folder, outputs)
        for flag, path in outputs.items():
            if path.is_file():
                self.written[path.resolve()] = (digest(path), f"({name})" if flag == "-o" else f"({flag[2:]} of {name})")
        if value is not None:
            test = os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)").removesuffix(" (setup)")
            with self.record.open("a") as file:
                file.write(json.dumps([name, test, value]) + "\n")

    def words(self, arguments: list[str], folder: pathlib.Path) -> list[str]:
        """The arguments as an entry's name has them."""
        found, skip = [], False
        for argument in arguments:
            if not skip and (argument in TOLD or argument not in WRITES):
                found.append(self.word(argument, folder))
            skip = argument in WRITES
        return found

    def word(self, argument: str, folder: pathlib.Path) -> str:
        path = (folder / argument).resolve()
        if not path.exists() or not ("/" in argument or path.suffix):
            return argument
        if path.parent == self.models:
            return path.name
        own = digest(path)
        then, name = self.written.get(path, ("", ""))
        return name if then == own else f"{own}{path.suffix}"

    def value(self, command: str, given: list[str], out: str, folder: pathlib.Path,
              outputs: dict[str, pathlib.Path]) -> object:
        """What is recorded of a command; None where there is nothing."""
        if command == "plan" and "--json" in given:
            return answer(out, {argument: self.word(argument, folder) for argument in given})
        if command == "compile" and "--emit" not in given:
            return self.inspect(outputs["-o"]) if "-o" in outputs else self.compile_and_inspect(given, folder)
        if command == "run":
            found = {"steps": steps(outputs["--log"])} if "--log" in outputs else {}
            found |= {flag[2:]: tensors(outputs[flag]) for flag in ("--save-weights", "--outputs") if flag in outputs}
            return found or None
        return None

    def inspect(self, artifact: pathlib.Path) -> dict:
        told = subprocess.run([self.binaries / "dtc", "inspect", artifact, "--json"], check=True, capture_output=True)
        return json.loads(told.stdout)

    def compile_and_inspect(self, given: list[str], folder: pathlib.Path) -> dict:
        """Weights that the model lacks are drawn: a memory plan needs none, an artifact does."""
        with tempfile.TemporaryDirectory() as place:
            artifact = pathlib.Path(place) / "again.dtc"
            command = [self.binaries / "dtc", "compile", *given, "-o", artifact]
            if subprocess.run(command, cwd=folder, capture_output=True).returncode:
                subprocess.run([*command, "--init"], check=True, cwd=folder, capture_output=True)
            return self.inspect(artifact)


def without_emit_schedule(given: list[str]) -> list[str]:
    at = given.index("--emit") if "--emit" in given else -1
    return given[:at] + given[at + 2:] if at >= 0 and given[at + 1] == "schedule" else given


def recorder(binaries: pathlib.Path, models: pathlib.Path) -> Recorder | None:
    """The recorder that DTC_RECORD asks for."""
    record = os.environ.get("DTC_RECORD")
    return Recorder(pathlib.Path(record), binaries, models) if record else None
