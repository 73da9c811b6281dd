"""Mutated inputs must end as wrong inputs do: with a documented exit code, one line that says what is wrong, no crash,
no hang and nothing half-written.

`test_fuzz.py` runs a few hundred mutations; for more,

    build/venv/bin/python test/Integration/fuzzing.py --cases 5000 --seed 1 [KIND...]

prints every finding with the file that shows it.
"""

import argparse
import copy
import dataclasses
import hashlib
import io
import itertools
import json
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy

import flag_words
from conftest import BIN, MODELS, ROOT

INTERESTING = [b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff" * 4, b"\xff" * 8, b"\x00" * 8,
               b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x00\x00\x00\x00\x00\x00\x00\x80",
               b"{", b"[" * 50, b"PK\x03\x04", b"\n", b"\""]
SCALARS = ["-1", "0", "1", "2", "3", "7", "1e999", "-1e30", "1e-320", "nan", "inf", "99999999999999999999",
           "9223372036854775807", "-9223372036854775808", "1.5", '""', "[]", "{}", "~", "true", "x",
           "[[[[[]]]]]", "*a", "&a b", "!!int x", "'", "%", "\t", "a: b: c", "16777216", "4294967297"]
REFUSALS = {2, 3, 4, 6}  # wrong usage, an input refused, no plan fits, not finite
UNWRITABLE = re.compile(r"cannot (create|write)\b.*: File name too long$")  # ends with 1, as any file that can't be written


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        length = rng.choice([1, 1, 2, 4, 8, 64])
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at:at + length]
        elif kind == 3:
            data[at:at] = data[at:at + length * 4]
        elif kind == 4:
            data[at:at] = rng.choice(INTERESTING)
        else:
            value = rng.choice(INTERESTING)
            data[at:at + len(value)] = value
    return bytes(data)


def mutate_text(content: bytes, rng: random.Random) -> bytes:
    """Of YAML and JSON: most stay well-formed."""
    text = content.decode()
    for _ in range(rng.choice([1, 1, 2])):
        kind = rng.randrange(8)
        lines = text.splitlines(keepends=True) or [""]
        at = rng.randrange(len(lines))
        words = list(re.finditer(r"[\w.+-]+", text))
        if kind < 4 and words:  # another value
            word = rng.choice(words)
            other = rng.choice(SCALARS) if rng.random() < 0.8 else rng.choice(words).group()
            text = text[:word.start()] + other + text[word.end():]
        elif kind == 4:
            text = "".join(lines[:at] + lines[at + 1:])
        elif kind == 5:
            text = "".join(lines[:at] + [rng.choice(lines)] + lines[at:])
        elif kind == 6:
            lines[at] = rng.choice([" ", "  ", "- ", "\t"]) + lines[at]
            text = "".join(lines)
        else:
            return mutate_bytes(text.encode(), rng)
    return text.encode()


VALUES = [None, True, -1, 0, 1, 2, 3, 2**31, 2**40, 2**63 - 1, 2**64, -2**63, 0.5, -1e308,
          "", "x", "F32", "\n", [], {}, [[]], [0], [-1], [2**62, 2**62]]


def mutate_json(content: bytes, rng: random.Random) -> bytes:
    """Well-formed JSON that says something else."""
    root = json.loads(content)
    for _ in range(rng.choice([1, 1, 2])):
        places = []

        def collect(node, depth):
            for key in (node if isinstance(node, dict) else range(len(node))):
                places.append((node, key))
                if isinstance(node[key], (dict, list)) and depth < 8:
                    collect(node[key], depth + 1)

        collect(root, 0)
        if not places:
            break
        node, key = rng.choice(places)
        kind = rng.randrange(6)
        if kind < 3:
            node[key] = copy.deepcopy(rng.choice(VALUES))  # the next round may change it
        elif kind == 3:
            other, its = rng.choice(places)
            node[key] = json.loads(json.dumps(other[its]))
        elif kind == 4:
            del node[key]
        elif isinstance(node, list):
            node.insert(key, json.loads(json.dumps(node[key])))
        elif isinstance(node[key], int):
            node[key] += rng.choice([-1, 1, 8])
    return json.dumps(root).encode()


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def parse_fields(content: bytes) -> list | None:
    """Fields of a protobuf message: (number, wire type, value); None: it isn't one."""
    fields, at = [], 0

    def read() -> int | None:
        nonlocal at
        value = shift = 0
        while at < len(content) and shift < 64:
            byte = content[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        return None

    while at < len(content):
        tag = read()
        if tag is None or tag >> 3 == 0 or tag & 7 not in (0, 1, 2, 5):
            return None
        size = {1: 8, 5: 4}.get(tag & 7)
        value = read() if tag & 7 in (0, 2) else None
        if tag & 7 == 2:
            size = value
        if size is not None:
            value = content[at:at + size]
            at += size
        if value is None or (size is not None and len(value) != size):
            return None
        fields.append((tag >> 3, tag & 7, value))
    return fields


def mutate_proto(content: bytes, rng: random.Random) -> bytes:
    """Changes one field of a protobuf message, or of one inside it."""
    fields = parse_fields(content)
    if not fields:
        return mutate_bytes(content, rng) if rng.random() < 0.3 else rng.choice([b"", b"x", content * 2])
    # Nobody reads most of what exporters note down.
    at = next((each for each in rng.choices(range(len(fields)), k=9)
               if fields[each][1] != 2 or b"torch" not in fields[each][2] or len(fields[each][2]) > 4000), 0)
    number, wire, value = fields[at]
    kind = rng.randrange(12)
    if kind == 0:
        del fields[at]
    elif kind == 1:
        fields.insert(at, fields[at])
    elif kind == 2:
        fields[at], other = fields[rng.randrange(len(fields))], fields[at]
    elif kind == 3:
        fields[at] = (rng.randrange(1, 24), wire, value)
    elif wire == 0:
        fields[at] = (number, 0, rng.choice([0, 1, 2, 7, 255, 2**31, 2**40, 2**63 - 1, 2**64 - 1, value + 1]))
    elif wire == 2:
        fields[at] = (number, 2, mutate_proto(value, rng))
    out = bytearray()
    for number, wire, value in fields:
        out += varint(number << 3 | wire)
        out += varint(value) if wire == 0 else (varint(len(value)) + value if wire == 2 else value)
    return bytes(out)


def overwrite(content: bytes, rng: random.Random) -> bytes:
    """Other bytes, as many."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 2, 4])):
        value = rng.choice(INTERESTING + [bytes([rng.randrange(256)])] * 8)
        at = rng.randrange(max(1, len(data) - len(value)))
        data[at:at + len(value)] = value
    return bytes(data)


def repacked(members: dict[str, bytes]) -> bytes:
    """An artifact of these members, aligned as dtc does it, with the hash of its manifest."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, member in members.items():
            info = zipfile.ZipInfo(name)
            padding = -(out.tell() + 30 + len(name) + 4) % 64
            info.extra = struct.pack("<HH", 0xD935, padding) + bytes(padding)
            file.writestr(info, member)
        file.comment = hashlib.sha256(members["manifest.json"]).hexdigest().encode()
    return out.getvalue()


def members_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def mutate_exported(content: bytes, rng: random.Random) -> bytes:
    """A PyTorch program: mostly its graph or what is said of its weights, in a sound archive."""
    if rng.random() < 0.2:
        return mutate_bytes(content, rng)
    members = members_of(content)
    name = rng.choice(sorted(members) + [name for name in sorted(members) if name.endswith(".json")] * 8)
    change = mutate_json if name.endswith(".json") else mutate_bytes
    members[name] = change(members[name], rng)
    if rng.random() < 0.1:
        del members[name]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, member in members.items():
            file.writestr(zipfile.ZipInfo(name), member)
    return out.getvalue()


def with_manifest(content: bytes, change) -> bytes:
    """The artifact with another manifest, the text that `change` makes of its own."""
    members = members_of(content)
    members["manifest.json"] = change(members["manifest.json"])
    return repacked(members)


def rehashed(choose):
    """Mutates a member of an artifact that `choose` likes and makes its hash fit again."""
    def mutate(content: bytes, rng: random.Random) -> bytes:
        members = members_of(content)
        name = rng.choice([name for name in sorted(members) if choose(name)])
        if name == "manifest.json":
            members[name] = mutate_json(members[name], rng)
        else:
            members[name] = (overwrite if rng.random() < 0.8 else mutate_bytes)(members[name], rng)
            manifest = json.loads(members["manifest.json"])
            for section in manifest.values():
                if isinstance(section, dict) and name in section:
                    section[name] = {"size": len(members[name]),
                                     "sha256": hashlib.sha256(members[name]).hexdigest()}
            members["manifest.json"] = json.dumps(manifest).encode()
        return repacked(members)
    return mutate


@dataclasses.dataclass
class Kind:
    """One sort of input: its unharmed files, how they are mutated and who reads them."""

    suffix: str
    seeds: list[bytes]
    mutate: object
    commands: list[list[str]]  # FILE and OUT stand for paths, WORDS for the lines of the file

    def command(self, words: list[str], path: pathlib.Path, out: pathlib.Path) -> list[str]:
        own = path.read_text(errors="replace").replace("\0", "").split("\n") if "WORDS" in words else []
        given = {"FILE": [str(path)], "OUT": [str(out)], "WORDS": own}
        return [each for word in words for each in given.get(word, [word])]


@dataclasses.dataclass
class Finding:
    kind: str
    number: int
    command: list[str]
    what: str
    content: bytes


def run_dtc(*arguments, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run([str(BIN / arguments[0]), *map(str, arguments[1:])], capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=120, check=True, **kwargs)


JOB = ["--devices", "2", "--loss", "cross_entropy", "--global-batch", "8"]
CLUSTERS = [
    b"device: a100-80\ndevices_per_node: 8\nintra_node: {bandwidth_gbs: 300, latency_us: 5}\n"
    b"inter_node: {bandwidth_gbs: 25, latency_us: 10}\n",
    b"name: mine\nshared_memory: true\ncores: 4\nlinks: [{bandwidth_gbs: 5, latency_us: 3}]\n"
    b"device: {name: d, memory_gb: 4, bandwidth_gbs: 10, launch_us: 2, peak_tflops: {fp32: 0.2}}\n"
    b"measured:\n  contractions: [{type: fp32, m: 64, n: 64, k: 64, seconds: 1e-5}]\n"
    b"  collectives: [{kind: all_reduce, ranks: 2, bytes: 1024, seconds: 2e-5}]\n"
    b"  forks: [{threads: 4, seconds: 3e-6}]\nsoftware: {flash_attention: true, fused_norm: false}\n",
    b"device: {base: h100, bandwidth_gbs: 2400, achieved_tflops: {bf16: 600}, attention_tflops: {forward: 4e2, backward: 300}}\ndevices_per_node: 4\n"
    b"links:\n  - {name: a, size: 4, bandwidth_gbs: 300, latency_us: 3, ring_gbs: {2: 205, 3: 220}}\n"
    b"  - {name: leaf, size: 64, bandwidth_gbs: 25, latency_us: 14}\n"
    b"  - {name: spine, bandwidth_gbs: 12.5, latency_us: 16, achieved: 0.9, in_switch: 0.8}\n",
    b"name: mixed\ngroups:\n  - {node: dgx-h100, nodes: 2}\n"
    b"  - {device: a100-40, nodes: 3, devices_per_node: 4, intra_node: {bandwidth_gbs: 300}}\n"
    b"inter_node: {bandwidth_gbs: 25, latency_us: 14}\n"]
CONFIGS = [b"devices: 2\nloss: cross_entropy\nglobal-batch: 8\noptimizer: adamw\nlr: 1e-3\n"
           b"betas: 0.9,0.95\nplan: dp=2\nclip_grad_norm: 1.0\nprecision: bf16\n"]


def prepare(folder: pathlib.Path) -> dict[str, Kind]:
    """Unharmed inputs of every kind, made in `folder`."""
    mlp, gpt2 = MODELS / "mlp.onnx", MODELS / "gpt2.onnx"
    artifact, gpt2_artifact = folder / "mlp.dtc", folder / "gpt2.dtc"
    for model, path in ((mlp, artifact), (gpt2, gpt2_artifact)):
        run_dtc("dtc", "compile", model, *JOB, "-o", path)
    plans = []
    for model, spec in ((mlp, "dp=2"), (mlp, "tp=2"), (gpt2, "dp=1,tp=2")):
        path = folder / "plan.yaml"
        run_dtc("dtc", "plan", model, *JOB, "--plan", spec, "--save-plan", path)
        plans.append(path.read_bytes())
    return {**compiler_kinds(plans[:2], plans[2:]), **artifact_kinds(artifact, gpt2_artifact),
            **data_kinds(artifact, gpt2_artifact)}


def compiler_kinds(mlp_plans: list[bytes], gpt2_plans: list[bytes]) -> dict[str, Kind]:
    mlp, gpt2 = str(MODELS / "mlp.onnx"), str(MODELS / "gpt2.onnx")
    small = [(MODELS / f"{name}.onnx").read_bytes() for name in ("mlp", "resnet_tiny")]
    graphs = [(MODELS / f"{name}.onnx").read_bytes()
              for name in ("llama_b1", "gpt2_b1", "gpt2_dyn", "llama_opset24")]
    nodes = [path.read_bytes() for path in sorted((ROOT / "test/Conformance/fixtures").glob("*.onnx"))]
    problems = [(ROOT / "test/Unit/Plan/problems" / f"{name}.json").read_bytes()
                for name in ("gpt", "llama_kv2")]
    commands = [["dtc", "plan", "FILE", "--devices", "2"],
                ["dtc", "compile", "FILE", *JOB, "-o", "OUT"]]
    return {
        "bytes": Kind(".onnx", small, mutate_bytes, commands),
        "onnx": Kind(".onnx", small, mutate_proto, commands),
        "graph": Kind(".onnx", graphs, mutate_proto,
                      [["dtc", "plan", "FILE", "--devices", "2", "--loss", "cross_entropy"]]),
        "nodes": Kind(".onnx", nodes, mutate_proto, [["dtc", "plan", "FILE", "--devices", "1", "--loss", "none"]]),
        "exported": Kind(".pt2", [(MODELS / f"{name}.pt2").read_bytes() for name in ("mlp", "mlp_dyn", "gpt2_fake")],
                         mutate_exported, commands[:1]),
        "cluster": Kind(".yaml", CLUSTERS, mutate_text, [
            ["dtc", "plan", mlp, "--gpus", "8", "--cluster", "FILE"]]),
        "plan": Kind(".yaml", mlp_plans, mutate_text, [
            ["dtc", "plan", mlp, *JOB, "--plan", "FILE", "--save-plan", "OUT"]]),
        "plan_gpt2": Kind(".yaml", gpt2_plans, mutate_text,
                          [["dtc", "compile", gpt2, *JOB, "--plan", "FILE", "-o", "OUT"]]),
        "config": Kind(".yaml", CONFIGS, mutate_text, [
            ["dtc", "plan", mlp, "--config", "FILE", "--save-plan", "OUT"]]),
        "flags": Kind(".txt", flag_words.lines(flag_words.DTC), flag_words.mutate_words, [["dtc", "WORDS"]]),
        "problem": Kind(".json", problems, mutate_json, [
            ["dtc-plan-test", "file", "FILE", "tp=2", "dgx-h100"]]),
        "weights": Kind(".safetensors", [(MODELS / "gpt2.safetensors").read_bytes()], mutate_header, [
            ["dtc", "compile", str(MODELS / "gpt2_b1.onnx"), *JOB, "--weights", "FILE", "-o", "OUT"]]),
    }


def artifact_kinds(artifact: pathlib.Path, gpt2_artifact: pathlib.Path) -> dict[str, Kind]:
    run = ["dtc-run", "FILE", "--data", str(MODELS / "mlp.data.safetensors"), "--steps", "1"]
    return {
        "artifact": Kind(".dtc", [artifact.read_bytes()], mutate_bytes,
                         [["dtc", "inspect", "FILE", "--json"], run]),
        "manifest": Kind(".dtc", [artifact.read_bytes(), gpt2_artifact.read_bytes()],
                         rehashed(lambda name: name == "manifest.json"),
                         [["dtc", "inspect", "FILE"], ["dtc", "inspect", "FILE", "--json"]]),
        # A program whose hash fits is trusted as its kernels are: it isn't run.
        "program": Kind(".dtc", [artifact.read_bytes()],
                        rehashed(lambda name: name.startswith("program")),
                        [["dtc", "inspect", "FILE"]]),
        "members": Kind(".dtc", [artifact.read_bytes()],
                        rehashed(lambda name: not name.startswith(("code", "program"))),
                        [[*run, "--timeout", "20", "--save-weights", "OUT"]]),
    }


def data_kinds(artifact: pathlib.Path, gpt2_artifact: pathlib.Path) -> dict[str, Kind]:
    data = (MODELS / "mlp.data.safetensors").read_bytes()
    stream = io.BytesIO()
    numpy.savez(stream, **load(data))
    tokens = numpy.arange(4096, dtype=numpy.uint16) % 60
    train = ["dtc-run", str(artifact), "--steps", "1", "--timeout", "20", "--save-weights", "OUT",
             "--data", "FILE"]
    return {
        "safetensors": Kind(".safetensors", [data], mutate_bytes, [train]),
        "header": Kind(".safetensors", [data], mutate_header, [train]),
        "npz": Kind(".npz", [stream.getvalue()], mutate_bytes, [train]),
        "bin": Kind(".bin", [tokens.tobytes()], mutate_bytes, [
            ["dtc-run", str(gpt2_artifact), "--steps", "1", "--timeout", "20", "--data", "FILE"]]),
    }


def load(data: bytes) -> dict[str, numpy.ndarray]:
    import safetensors.numpy
    return safetensors.numpy.load(data)


def mutate_header(content: bytes, rng: random.Random) -> bytes:
    """Of safetensors: the JSON in front."""
    length, = struct.unpack("<Q", content[:8])
    header = mutate_json(content[8:8 + length], rng)
    return struct.pack("<Q", len(header)) + header + content[8 + length:]


def check(done: subprocess.CompletedProcess, program: str, left: list[str]) -> str:
    """What is wrong with how a command ended, or ""."""
    lines = done.stderr.decode(errors="replace").splitlines()
    if done.returncode == 0:
        return ""
    if program == "dtc-plan-test":
        return "" if done.returncode == 1 and len(lines) == 1 else f"ends with {done.returncode}"
    errors = [line for line in lines if "error:" in line]
    unwritable = done.returncode == 1 and errors and UNWRITABLE.search(errors[0])
    if done.returncode not in REFUSALS and not unwritable:
        return f"ends with {done.returncode}"
    if len(errors) != 1:
        return f"{len(errors)} lines of errors"
    if len(errors[0]) > 1000:
        return f"an error of {len(errors[0])} characters"
    if not all(character.isprintable() for character in errors[0]):
        return "an error that isn't printable"
    if left:
        return f"leaves {left}"
    return ""


def unharmed(kinds: dict[str, Kind], folder: pathlib.Path) -> None:
    """Every input must be fine before it is mutated."""
    shutil.copy(MODELS / "mlp.onnx", folder / "model.onnx")
    for kind in kinds.values():
        path = folder / f"unharmed{kind.suffix}"
        for seed, command in itertools.product(kind.seeds, kind.commands):
            path.write_bytes(seed)
            run_dtc(*kind.command(command, path, folder / "output"), cwd=folder)


def fuzz(kind: str, given: Kind, seed: int, cases: int, folder: pathlib.Path, first: int = 0) -> list[Finding]:
    """The findings of `cases` mutations from the `first` on; the same for the same seed."""
    findings = []
    for number in range(first, first + cases):
        rng = random.Random(f"{kind} {seed} {number}")
        content = given.mutate(rng.choice(given.seeds), rng)
        place = folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        path, out = place / f"input{given.suffix}", place / "output"
        path.write_bytes(content)
        shutil.copy(MODELS / "mlp.onnx", place / "model.onnx")
        command = given.command(rng.choice(given.commands), path, out)
        try:
            done = subprocess.run([str(BIN / command[0]), *command[1:]], capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=60, cwd=place)
            left = sorted(each.name for each in place.iterdir() if each.name not in (path.name, "model.onnx"))
            what = check(done, command[0], left)
            if what:
                what += ": " + done.stderr.decode(errors="replace")[-400:]
        except subprocess.TimeoutExpired:
            what = "hangs"
        if what:
            findings.append(Finding(kind, number, command, what, content))
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500, help="mutations of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("fuzz-findings"))
    parser.add_argument("kinds", nargs="*")
    options = parser.parse_args()
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        kinds = prepare(folder)
        unharmed(kinds, folder)
        for name in options.kinds or kinds:
            findings = fuzz(name, kinds[name], options.seed, options.cases, folder)
            print(f"{name}: {options.cases} mutations, {len(findings)} findings", flush=True)
            for finding in findings:
                options.keep.mkdir(exist_ok=True)
                path = options.keep / f"{name}-{options.seed}-{finding.number}{kinds[name].suffix}"
                path.write_bytes(finding.content)
                print(f"  {path} {' '.join(finding.command[:2])}: {finding.what}")
            total += len(findings)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
