"""Compares two folders that export.py wrote: the committed one and one made just now, perhaps by other versions.

Losses agree within 1e-5, gradient norms within 1e-4 (tf32, bf16 and bf16-true: 5e-3 and 5e-2, fp16: 1e-3 and
1e-2, since processors round them differently),
final weights within a bound that grows with what rounding does to each. Initializers and data agree exactly. Graphs
may be written differently by other versions: the same batch must give the same logits by ONNX's reference evaluator,
and PyTorch's loss.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
from onnx.reference.op_run import OpRun
from safetensors.numpy import load_file

import draw
import reference
import sampled_weights
import zoo
from samples import IGNORED

LOSS = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 5e-3, "fp16": 1e-3, "bf16-true": 5e-3}
NORM = {"fp32": 1e-4, "tf32": 5e-2, "bf16": 5e-2, "fp16": 1e-2, "bf16-true": 5e-2}
WEIGHT = 1e-5  # absolute, and 100 times the difference between two of PyTorch's own runs
LOGITS = 1e-4
_NOT_MADE = ": only in the repository"
_OF_OTHERS = {"functions.onnx", "scripted.outputs.safetensors"}  # by functions.py and ts_export.py


class GatherElements(OpRun):
    """onnx 1.23's own fails where the indices have one row."""

    def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
        return (np.take_along_axis(data, indices, axis),)


def report(committed: Path, made: Path, whole: bool = True) -> int:
    """Prints what differs; 0 if nothing does. Where only a part was made, the rest isn't missed."""
    problems = _file_names(committed, made)
    if not whole:
        problems = [problem for problem in problems if not problem.endswith(_NOT_MADE)]
    for path in sorted(made.iterdir()):
        other = committed / path.name
        if other.exists():
            print(path.name, file=sys.stderr, flush=True)
            problems += [f"{path.name}: {problem}" for problem in _compare(other, path)]
    for problem in problems:
        print(problem)
    if not problems:
        print("all files agree")
    return 1 if problems else 0


def _file_names(committed: Path, made: Path) -> list[str]:
    """Files that only one side has, the sources of this folder and what other programs write here aside."""
    aside = {".py", ".md", ".pt", ".recorded", ".shapes"}
    ours = {path.name for path in committed.iterdir() if path.is_file() and path.suffix not in aside} - _OF_OTHERS
    theirs = {path.name for path in made.iterdir()}
    return [name + _NOT_MADE for name in sorted(ours - theirs)] + [
        f"{name}: missing in the repository" for name in sorted(theirs - ours)
    ]


def _compare(committed: Path, made: Path) -> list[str]:
    """What differs between two files of the same name."""
    if made.suffix == ".onnx":
        return _compare_models(committed, made)
    if made.suffix == ".pt2":
        return _compare_programs(committed, made)
    if made.name.endswith(".final.safetensors"):
        return _compare_weights(committed, made)
    if made.name.endswith(".sampled.safetensors"):
        return _compare_sampled(committed, made)
    if made.suffix == ".json" and "steps" in (record := json.loads(made.read_text())):
        return _compare_trajectories(json.loads(committed.read_text()), record)
    return [] if committed.read_bytes() == made.read_bytes() else ["differs"]


def _compare_trajectories(committed: dict, made: dict) -> list[str]:
    precision = next((half for half in ("tf32", "bf16", "fp16", "bf16-true") if half in made["flags"]), "fp32")
    if committed["flags"] != made["flags"] or len(committed["steps"]) != len(made["steps"]):
        return ["other flags or another number of steps"]
    return differing_steps(committed["steps"], made["steps"], precision)


def differing_steps(committed: list[dict], made: list[dict], precision: str = "fp32") -> list[str]:
    """Where two runs of as many steps differ by more than rounding."""
    problems = []
    for old, new in zip(committed, made, strict=True):
        bounds = {"loss": LOSS[precision], "eval_loss": LOSS[precision], "grad_norm": NORM[precision], "lr": 0.0}
        for key, bound in bounds.items():
            before, now = old.get(key), new.get(key)
            if before is None or now is None:
                same = before == now  # a step without an update, or one after which nothing is evaluated
            else:
                same = abs(before - now) <= bound * abs(before)
            if not same:
                problems.append(f"step {old['step']}: {key} {before} is now {now}")
    return problems


def _compare_weights(committed: Path, made: Path) -> list[str]:
    trajectory = json.loads(Path(str(committed).replace(".final.safetensors", ".json")).read_text())
    rounding = trajectory["rounding"]["weights"]
    old, new = load_file(committed), load_file(made)
    if old.keys() != new.keys():
        return ["other names"]
    problems = []
    for name, value in old.items():
        difference = float(np.abs(value - new[name]).max())
        if difference > WEIGHT + 100 * rounding[name]:
            problems.append(f"{name}: differs by {difference}")
    return problems


def _compare_sampled(committed: Path, made: Path) -> list[str]:
    rounding = json.loads(Path(str(committed).replace(".sampled.safetensors", ".json")).read_text())["rounding"]["weights"]
    old, new = load_file(committed), load_file(made)
    if old.keys() != new.keys():
        return ["other names"]
    distances = {name: sampled_weights.distance(old, new, name) for name in sampled_weights.parameters(old)}
    return [f"{name}: differs by {each}" for name, each in distances.items() if each > WEIGHT + 100 * rounding[name]]


def _compare_programs(committed: Path, made: Path) -> list[str]:
    """Members are equal, but for the places in the sources that made them."""
    old, new = _members(committed), _members(made)
    if old.keys() != new.keys():
        return [f"other members: {', '.join(sorted(old.keys() ^ new.keys()))}"]
    return [f"{name}: differs" for name, data in old.items() if new[name] != data]


def _members(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as members:
        contents = {info.filename: members.read(info) for info in members.infolist()}
    trace = rb'"stack_trace":"(?:[^"\\]|\\.)*"'
    return {name: re.sub(trace, b"", data) if "/models/" in name else data for name, data in contents.items()}


def _compare_models(committed: Path, made: Path) -> list[str]:
    old, new = onnx.load(committed), onnx.load(made)
    old_weights, new_weights = _initializers(old), _initializers(new)
    if old_weights.keys() != new_weights.keys():
        return ["other initializers"]
    pairs = ((name, value, new_weights[name]) for name, value in old_weights.items())
    problems = [f"{name}: differs" for name, value, other in pairs if not np.array_equal(value, other)]
    export = next(export for export in zoo.EXPORTS if export.name == made.stem)
    if export.weights == "dangling":  # not a valid model: nothing can run it
        return problems
    expected = _loss_of_pytorch(made.parent, export)
    for side, proto in (("committed", old), ("new", new)):
        loss = _loss_of_first_batch(proto, export, made.parent)
        if abs(loss - expected) > LOGITS * expected:
            problems.append(f"the {side} graph's first loss is {loss}, PyTorch's {expected}")
    return problems


def _initializers(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}


def _loss_of_pytorch(folder: Path, export: zoo.Export) -> float:
    recipe = next(recipe.name for recipe in reference.RECIPES if export.model in recipe.models)
    return json.loads((folder / f"{export.model}.{recipe}.json").read_text())["steps"][0]["loss"]


def _loss_of_first_batch(proto: onnx.ModelProto, export: zoo.Export, folder: Path) -> float:
    """The mean cross entropy of the first 8 samples, by ONNX's reference evaluator."""
    evaluator = onnx.reference.ReferenceEvaluator(proto, new_ops=[GatherElements])
    data = {name: array[:8] for name, array in load_file(folder / f"{export.model}.data.safetensors").items()}
    target = data.pop("target")
    weights = _drawn_weights(export) if export.weights == "inputs" else {}
    weights = {name: value for name, value in weights.items() if name in evaluator.input_names}
    size = export.batch or 8
    parts = [
        evaluator.run(None, {name: array[start : start + size] for name, array in data.items()} | weights)[0]
        for start in range(0, 8, size)
    ]
    logits = np.concatenate(parts).astype(np.float64).reshape(target.size, -1)
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.flatnonzero(target.ravel() != IGNORED)
    return float(-log_probabilities[rows, target.ravel()[rows]].mean())


def _drawn_weights(export: zoo.Export) -> dict[str, np.ndarray]:
    """The model's weights under all names that its inputs may have, tied ones under each."""
    module, salt = zoo.MODELS[export.model].build(), zoo.MODELS[export.model].salt
    tensors = dict(module.named_parameters(remove_duplicate=False))
    drawn = {name: draw.draw(salt + name, entry) for name, entry in zoo.distributions(module).items()}
    first = {id(tensor): name for name, tensor in reversed(tensors.items())}
    return drawn | {name: drawn[first[id(tensor)]] for name, tensor in tensors.items()}
