"""Programs of the build folder with some sources changed, linked beside them: for pages that say how to change dtc."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import shutil
import subprocess

from conftest import BIN, ROOT

BUILD = BIN.parent
#: Where the precompiled header is a copy. A header that is there wants what is compiled with it to be as optimized.
UNOPTIMIZED = "-O0"


def run(command: list, folder: pathlib.Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commands(target: str) -> str:
    """The last of the commands that make a target."""
    return run(["ninja", "-t", "commands", target], BUILD).splitlines()[-1]


def listed(source: pathlib.Path) -> list[str]:
    """The words of the command that compiles a source in the build folder."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    return shlex.split(next(entry["command"] for entry in entries if pathlib.Path(entry["file"]) == source))


def tablegen(name: str) -> list[str]:
    """The words of the command that makes a file by tablegen."""
    return shlex.split(re.search(r"(\S*mlir-tblgen .*?) -d ", commands(name))[1])


def table_records(name: str) -> str:
    """All records that tablegen makes such a file of, as text."""
    words = tablegen(name)
    kept = [word for word in words[:words.index("-o")] if not re.match("-gen-|--write-if-changed", word)]
    return run([*kept, "--print-records"], BUILD)


class ChangedBuild:
    """Copies of folders, in which files are changed. What is compiled there takes the copies, and all else from the
    project and its build folder."""

    def __init__(self, folder: pathlib.Path, *copied: str) -> None:
        self.folder = folder
        self.generated = folder / "generated"
        self.copied = copied
        self.first = ["-I", str(folder / "include"), "-I", str(self.generated / "include")]
        for part in copied:
            shutil.copytree(ROOT / part, folder / part)

    def insert(self, path: str, text: str, *, before: str) -> None:
        """Before the last place where `before` is, or at the end where it is nowhere."""
        file = self.folder / path
        old = file.read_text()
        place = old.rindex(before) if before in old else len(old)
        file.write_text(f"{old[:place]}{text}\n{old[place:]}")

    def generate(self, name: str) -> None:
        """A file that tablegen makes, such as include/dtc/Dialect/Graph/GraphOps.h.inc."""
        words = tablegen(name)
        (self.generated / name).parent.mkdir(parents=True, exist_ok=True)
        words[words.index("-o") + 1] = str(self.generated / name)
        words = [word.replace(str(ROOT / "include"), str(self.folder / "include")) for word in words]
        run([*words, "-I", ROOT / "include"], BUILD)

    def compile(self, source: str, *, like: str = "") -> pathlib.Path:
        """An object file. `like`: the source whose command is taken, for one that the project doesn't have."""
        words = listed(ROOT / (like or source))
        target = self.folder / (source.replace("/", "-") + ".o")
        words[words.index("-o") + 1] = str(target)
        words[words.index("-c") + 1] = str(self.folder / source)
        if "-include-pch" in words:
            place = words.index("-include-pch") + 2
            made = words[place]
            words[place] = self.header(made)
            if words[place] != made:
                words.append(UNOPTIMIZED)
        run([words[0], *self.first, *words[1:]], BUILD)
        return target

    def header(self, made: str) -> str:
        """A precompiled header: that of the build folder, unless it has read what is copied here."""
        read = run(["ninja", "-t", "deps", pathlib.Path(made).relative_to(BUILD)], BUILD)
        if not any(f" {ROOT / part}/" in read for part in self.copied):
            return made
        target = self.folder / pathlib.Path(made).parent.name / "copy.pch"
        if not target.exists():
            target.parent.mkdir()
            words = listed(pathlib.Path(made).with_suffix(".cxx"))
            words[words.index("-o") + 1] = str(target)
            run([words[0], *self.first, *words[1:], UNOPTIMIZED], BUILD)
        return str(target)

    def link(self, target: str, objects: list[pathlib.Path]) -> pathlib.Path:
        """The program with these objects instead of those that its libraries have."""
        words = shlex.split(commands(target).removeprefix(": && ").removesuffix(" && :"))
        program = self.folder / pathlib.Path(target).name
        place = words.index("-o")
        words[place + 1] = str(program)
        run([*words[:place], *objects, *words[place:]], BUILD)
        return program
