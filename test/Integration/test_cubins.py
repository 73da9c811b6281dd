"""Cubins: of each kernel one, assembled once for all models that have it, and the code that ptxas makes of the whole program."""

import concurrent.futures
import os
import re
import struct
import subprocess

import pytest

from conftest import MODELS, call
from test_cuda import CUDA, PTXAS, kernels_of, members

pytestmark = pytest.mark.skipif(not PTXAS.exists(), reason="needs ptxas, which scripts/install.sh --tests installs")


class Assembler:
    """A ptxas that notes for which kernels it is called, and a cache of its own."""

    def __init__(self, folder):
        self.folder, self.calls, self.cache, tool = folder, folder / "calls", folder / "cache", folder / "ptxas"
        tool.write_text(f'#!/bin/sh\necho ${{2##*/}} >> {self.calls}\nexec {PTXAS} "$@"\n')
        tool.chmod(0o755)
        self.environment = {**os.environ, "DTC_PTXAS": str(tool), "DTC_KERNEL_CACHE": str(self.cache)}

    def compile(self, name: str, *flags: object, arch: str = "sm_90", model: str = "gpt2", **environment: str) -> dict[str, bytes]:
        done = call("dtc", "compile", MODELS / f"{model}.onnx", "--loss", "cross_entropy", "--global-batch", 8, *CUDA, "--devices", 1,
                    "--arch", arch, *flags, "-o", self.folder / name, env=self.environment | environment)
        assert done.code == 0, done.err
        return members(self.folder / name)

    def assembled(self) -> list[str]:
        """The kernels since it was asked last."""
        names = self.calls.read_text().split() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return [name.removesuffix(".ptx") for name in names]


@pytest.fixture
def assembler(tmp_path) -> Assembler:
    return Assembler(tmp_path)


def test_kernels_are_assembled_once(assembler):
    first = assembler.compile("first.dtc")
    kernels = kernels_of(assembler.folder / "first.dtc")
    assert len(kernels) > 8 and sorted(assembler.assembled()) == sorted(set(kernels))
    assert assembler.compile("again.dtc") == first and assembler.assembled() == []
    assert assembler.compile("off.dtc", DTC_KERNEL_CACHE="off") == first and len(assembler.assembled()) == len(kernels)


def test_other_models_bring_their_own_kernels_alone(assembler):
    """Those of another update; kernels have other names and neighbours then."""
    first = assembler.compile("adamw.dtc", "--optimizer", "adamw")
    assembler.assembled()
    second = assembler.compile("sgd.dtc", "--optimizer", "sgd")
    made = assembler.assembled()
    assert 0 < len(made) <= 4 < len(kernels_of(assembler.folder / "sgd.dtc"))
    assert assembler.compile("off.dtc", "--optimizer", "sgd", DTC_KERNEL_CACHE="off") == second != first


def test_a_damaged_entry_is_made_again(assembler):
    first = assembler.compile("first.dtc")
    assembler.assembled()
    entries = sorted(path for path in assembler.cache.iterdir() if path.read_bytes().startswith(b"\x7fELF"))
    entries[0].write_bytes(entries[0].read_bytes()[:-1] + b"?")
    entries[1].write_bytes(b"")
    assert assembler.compile("damaged.dtc") == first and len(assembler.assembled()) == 2
    assert assembler.compile("mended.dtc") == first and assembler.assembled() == []


def test_a_cache_that_can_not_be_written_is_as_good_as_none(assembler):
    first = assembler.compile("first.dtc")
    assembler.assembled()
    (assembler.folder / "file").write_text("not a folder")
    for cache in (assembler.folder / "file", "/proc/none"):
        assert assembler.compile("again.dtc", DTC_KERNEL_CACHE=str(cache)) == first and assembler.assembled() != []


def test_a_tool_that_makes_nothing_is_told(tmp_path):
    made = call("dtc", "compile", MODELS / "mlp.onnx", "--loss", "cross_entropy", *CUDA, "-o", tmp_path / "m.dtc",
                env={**os.environ, "DTC_PTXAS": "/bin/true", "DTC_KERNEL_CACHE": str(tmp_path / "cache")})
    assert made.code == 1 and "/bin/true told no error, but made no cubin of kernel " in made.error_line()
    assert not (tmp_path / "m.dtc").exists()


def test_compilations_may_share_the_cache(assembler):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda number: assembler.compile(f"{number}.dtc"), range(4)))
    assert all(each == made[0] for each in made)
    assembler.assembled()
    assert assembler.compile("again.dtc") == made[0] and assembler.assembled() == []


def sections(elf: bytes) -> dict[str, bytes]:
    """The contents of the sections of a cubin, by name."""
    start, (size, count, names) = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, start + number * size) for number in range(count)]
    contents = {}
    for name, kind, _, _, offset, length in headers:
        begin = headers[names][4] + name
        text = elf[begin:elf.index(b"\0", begin)].decode()
        contents[text] = elf[offset:offset + length] if kind != 8 else bytes(length)  # 8: no bits
    return contents


@pytest.mark.parametrize("model,architecture", [("gpt2", "sm_80"), ("gpt2_mask", "sm_90"), ("gpt2", "sm_100")])
def test_a_kernel_has_the_code_of_the_whole_program(assembler, model, architecture):
    """Instructions, parameters and shared memory, under its name alone. One of those with a mask has a table, too."""
    made = assembler.compile("model.dtc", "--precision", "bf16", arch=architecture, model=model)
    (assembler.folder / "whole.ptx").write_bytes(made["code/kernels.ptx"])
    subprocess.run([PTXAS, f"-arch={architecture}", assembler.folder / "whole.ptx", "-o", assembler.folder / "whole.cubin"], check=True)
    whole = sections((assembler.folder / "whole.cubin").read_bytes())
    tables = []
    for kernel in kernels_of(assembler.folder / "model.dtc"):
        alone = sections(made[f"code/{architecture}/{kernel}.cubin"])
        for kind in (".text", ".nv.constant0", ".nv.shared"):
            assert alone.get(f"{kind}.{kernel}") == whole.get(f"{kind}.{kernel}"), (kernel, kind)
        assert len(alone[f".text.{kernel}"]) > 0
        assert {name for name in alone if name.startswith(".text")} == {f".text.{kernel}"}
        names = re.split(rb"\0+", alone[".strtab"])
        assert kernel.encode() in names and b"dtc_ke" not in made[f"code/{architecture}/{kernel}.cubin"]
        tables += [name for name in names if name.startswith(f"{kernel}_table".encode())]
    assert bool(tables) == (model == "gpt2_mask")


def test_spilled_registers_are_translated_again(assembler):
    """At level 1, whose cubin is taken where it spills less. Here ptxas itself says nothing, and the stand-in warns."""
    tool, calls = assembler.folder / "ptxas", assembler.folder / "calls"
    tool.write_text(f"""#!/bin/sh
echo "$*" >> {calls}
{PTXAS} "$@" || exit
case "$*" in *-O1*) ;; *) echo "ptxas warning : Registers are spilled to local memory in function 'f', 8 bytes spill stores" >&2 ;; esac
""")
    again = assembler.compile("again.dtc", model="mlp")
    kernels = kernels_of(assembler.folder / "again.dtc")
    asked = calls.read_text().splitlines()
    assert len(asked) == 2 * len(kernels) and sum(line.endswith("-warn-spills -O1") for line in asked) == len(kernels)
    tool.write_text(f'#!/bin/sh\nexec {PTXAS} "$@" -O1\n')
    assert assembler.compile("level1.dtc", model="mlp", DTC_KERNEL_CACHE="off") == again
