"""Random compositions of what a plan and a recipe may have, each compared with one rank.

    build/venv/bin/python test/Integration/compositions.py [--seed N] [--cases N] [--only N ...] [--keep FOLDER] [--target cuda]

A case draws a model, its recipe (precision, adapters, frozen parameters, dropout, clipping, optimizer, class weights), a
plan (meshes, ZeRO, schedules, recomputation, offload, context and experts), how it is run, whether it evaluates, and a
second plan that goes on from a checkpoint in the middle. Threads and processes must have the same bits, and so must a run that goes on under its own plan. All else is
compared with the recipe on one rank, a processor also where GPUs train: emulated ones, or those of DTC_CUDA_LIBRARY_PATH. A
refusal must be one line. Exit code 1: something differed or ended otherwise.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import sys
import tempfile

import numpy
from safetensors.numpy import load_file, save_file

from conftest import BIN, MODELS, Outcome, call

BATCH, STEPS = 8, 4
#: The data of a model whose file is named otherwise, and what its shapes rule out.
DATA = {"gpt2_dropout.pt2": "gpt2", "resnet_norms.pt2": "resnet_tiny"}
#: Mixtures whose tokens look up their experts, so that there is a capacity.
LOOKED_UP = ["mixtral", "olmoe.pt2", "qwen2_moe.pt2", "qwen3_moe.pt2", "gpt_oss.pt2"]
TRANSFORMERS = ["gpt2", "gpt2_mask", "llama", "bart", "bert_odd", "t5", "mistral", "gpt_neox", "moe", "qwen2", "gpt2_dropout.pt2", *LOOKED_UP]
CLASSES = {"bert_odd": 509} | {name: 10 for name in ("vit", "mobilenet", "recurrent.pt2", "resnet_tiny", "resnet_norms.pt2")}
MODEL_NAMES = [*TRANSFORMERS, *(name for name in CLASSES if name != "bert_odd")]
#: How far losses, norms and weights may be from those of one rank. In half precision each plan rounds for itself.
BOUNDS = {"fp32": (1e-5, 1e-4, 1e-4), "bf16": (1e-2, 5e-2, 1e-2), "fp16": (2e-3, 2e-2, 5e-3), "bf16-true": (2e-2, 8e-2, 2e-2)}
#: Of GPUs, whose sums have another order.
GPU_BOUNDS = BOUNDS | {"fp32": (2e-5, 2e-4, 2e-4), "bf16": (1.5e-2, 8e-2, 2e-2)}
TARGETS = {"cpu": ["--cluster", "cpu"], "cuda": ["--arch", "sm_90"]}
REFUSED = (2, 3, 4)
OPTIMIZERS = [
    "--optimizer sgd --momentum 0.9 --lr 0.02",
    "--optimizer sgd --momentum 0.9 --nesterov --weight-decay 0.05 --lr 0.02",
    "--optimizer adam --eps 1e-5 --weight-decay 0.1 --lr 0.001",
    "--optimizer adamw --eps 1e-5 --weight-decay 0.1 --lr 0.001",
    "--optimizer adamw --eps 1e-5 --weight-decay 0.1 --lr 0.001 --no-decay bias|norm|ln_",
]
#: For each of two choices of four experts: all that are needed, and too few. Each part of a sequence drops others, and so
#: does each precision.
SLOTS = [{}, {"capacity": 2.0}, {"capacity": 0.75, "overflow": "drop"}]
CLASS_WEIGHTS = "CLASS_WEIGHTS"  # stands for the file, which a case's folder has
EVALUATED = 11  # samples: a batch, and some that are left behind


@dataclasses.dataclass
class Case:
    """What is trained (the same on one rank), and how: the text of a plan file for each half of the run."""

    number: int
    model: str
    recipe: list[str]
    precision: str
    plans: list[tuple[int, dict]]
    collectives: str
    processes: bool
    evaluates: bool = False

    def words(self) -> str:
        plans = " then ".join(f"{devices}:" + ",".join(f"{key}={value}" for key, value in plan.items() if value not in ("off", "none", 0, 1))
                              for devices, plan in self.plans)
        how = ("processes" if self.processes else "threads") + f" {self.collectives}" + (" evaluates" if self.evaluates else "")
        return f"{self.number}: {self.model} {' '.join(self.recipe)} | {plans} | {how}"


def drawn_plan(draw: random.Random, model: str, samples: int | None) -> tuple[int, dict]:
    """A plan of up to 8 ranks. `samples`: how many a microbatch has over all ranks, where results hang on it."""
    splits = model in TRANSFORMERS
    while True:
        plan = {"dp": draw.choice([1, 2, 4]), "tp": draw.choice([1, 1, 2, 3] if splits else [1]), "pp": draw.choice([1, 1, 2, 2, 3, 4]),
                "cp": draw.choice([1, 1, 1, 2] if splits else [1]),
                "ep": draw.choice([1, 2]) if model in (*LOOKED_UP, "moe") else 1}
        devices = plan["dp"] * plan["tp"] * plan["pp"] * plan["cp"] * plan["ep"]
        if not 2 <= devices <= 8 or BATCH % (plan["dp"] * plan["ep"]):
            continue
        local = BATCH // (plan["dp"] * plan["ep"])
        plan["micro_batch"] = draw.choice([size for size in (1, 2, 4, 8) if size <= local])
        # Statistics of two samples, of one pixel each, magnify what rounding does.
        if model == "resnet_norms.pt2" and plan["micro_batch"] * plan["dp"] not in ((samples,) if samples else (4, 8)):
            continue
        break
    plan["sp"] = draw.choice(["off", "on"]) if plan["tp"] > 1 else "off"
    if plan["cp"] > 1:
        plan["cp_by"] = draw.choice(["keys", "heads", "ring"])
    if plan["sp"] == "on" or plan["cp"] > 1:
        plan["regather"] = draw.choice(["off", "on"])
    plan["zero"] = draw.choice([0, 1, 2, 3, 3])
    if plan["zero"] and plan["dp"] == 4:
        plan["zero_group"] = draw.choice([0, 2])
    if plan["zero"] > 1 and draw.random() < 0.2:
        plan["zero_blocks"] = 1
    plan["schedule"] = draw.choice(["gpipe", "1f1b", "interleaved", "zb", "zbv", "list"]) if plan["pp"] > 1 else "1f1b"
    plan["chunks"] = 2 if plan["schedule"] in ("interleaved", "zbv") else 1
    if plan["schedule"] == "list":
        plan |= draw.choice([{}, {"kept": 1}, {"kept": 2}, {"kept": 3}])
    plan["recompute"] = draw.choice(["none", "selective", "full"])
    if plan["recompute"] != "none" and draw.random() < 0.2:
        plan["recompute_blocks"] = 1
    plan["offload"] = draw.choice(["none", "none", "optimizer"])
    if plan["pp"] > 1 and draw.random() < 0.4:
        devices = with_meshes(draw, plan, devices)
    return devices, plan


def with_meshes(draw: random.Random, plan: dict, devices: int) -> int:
    """Gives stages meshes of their own, and says how many ranks they have."""
    meshes, left = [], plan["pp"]
    while left:
        stages = draw.randint(1, left)
        mesh = {"pp": stages, "dp": draw.choice([1, 2]), "tp": draw.choice([1, 2]), "sp": "off"}
        mesh["tp"] = mesh["tp"] if plan["tp"] > 1 else 1
        meshes.append(mesh | {"micro_batch": 0})
        left -= stages
    samples = plan["micro_batch"] * plan["dp"]
    if any(samples % mesh["dp"] for mesh in meshes) or len(meshes) == 1:
        return devices
    for mesh in meshes:
        mesh["micro_batch"] = samples // mesh["dp"]
    plan |= {"stage_groups": meshes, "sp": "off"} | {key: meshes[0][key] for key in ("dp", "tp", "micro_batch")}
    plan.pop("zero_group", None)
    return sum(mesh["pp"] * mesh["dp"] * mesh["tp"] for mesh in meshes) * plan["cp"] * plan["ep"]


def drawn_case(seed: int, number: int) -> Case:
    draw = random.Random(f"{seed} {number}")
    model = draw.choice(MODEL_NAMES)
    recipe = draw.choice(OPTIMIZERS).split() if model != "resnet_norms.pt2" else ["--optimizer", "sgd", "--lr", "0.001"]
    precision = draw.choice(["fp32", "fp32", "fp32", "fp16", "fp16", "bf16", "bf16-true"])
    precision = precision if model != "resnet_norms.pt2" else "fp32"
    recipe += ["--precision", precision]
    if precision == "fp16":
        recipe += ["--loss-scale", draw.choice(["1024", "8388608"]), "--loss-scale-growth-interval", "2"]
    if draw.random() < 0.6:
        recipe += ["--clip-grad-norm", "0.25"]
    if draw.random() < 0.3 and model in TRANSFORMERS:
        targets = {"t5": "SelfAttention|DenseReluDense", "moe": "router|head"}.get(model, "attn|mlp|fc|proj")
        recipe += ["--lora", f"rank=2,alpha=8,targets={targets}"]
    elif draw.random() < 0.3:
        recipe += ["--freeze", draw.choice(["[.]0[.]|embed|wte|shared", "norm|ln_|bn", "bias", "[.]1[.]"])]
    if draw.random() < 0.2:
        recipe += ["--label-smoothing", "0.1"]
    if draw.random() < 0.2:
        recipe += ["--class-weights", CLASS_WEIGHTS]
    if draw.random() < 0.2:
        recipe += ["--lr-schedule", "cosine", "--total-steps", "8", "--warmup-steps", "2"]
    first = drawn_plan(draw, model, None)
    samples = first[1]["micro_batch"] * first[1]["dp"] if model == "resnet_norms.pt2" else None
    second = draw.choice([first, drawn_plan(draw, model, samples), drawn_plan(draw, model, samples)])
    if model in LOOKED_UP:
        slots = draw.choice(SLOTS if precision == "fp32" and first[1]["cp"] == second[1]["cp"] == 1 else SLOTS[:2])
        for _, plan in (first, second):
            plan |= slots
    return Case(number, model, recipe, precision, [first, second], draw.choice(["start", "wait", "thread"]), draw.random() < 0.4,
                draw.random() < 0.5)


class Refused(Exception):
    """A composition that dtc refuses by one line."""


class Differs(Exception):
    """A composition that ends otherwise than it should."""


class Runner:
    def __init__(self, folder: pathlib.Path, case: Case, target: str):
        self.folder, self.case, self.target = folder, case, target
        self.environment = {"DTC_CUDA_LIBRARY_PATH": str(BIN.parent / "lib" / "gpu-emulator")} | os.environ
        self.environment["DTC_COLLECTIVES"] = case.collectives
        self.data = MODELS / f"{DATA.get(case.model, case.model.removesuffix('.pt2'))}.data.safetensors"
        self.class_weights, self.evaluated = folder / "classes.safetensors", folder / "evaluated.safetensors"
        weights = numpy.linspace(0, 2, CLASSES.get(case.model, 512), dtype="f4")
        save_file({"weights": weights}, self.class_weights)
        save_file({name: array[-EVALUATED:].copy() for name, array in load_file(self.data).items()}, self.evaluated)

    def ended(self, what: str, outcome: Outcome) -> Outcome:
        lines = [line for line in outcome.err.splitlines() if "error:" in line]
        if outcome.code in REFUSED and len(lines) == 1 and what.startswith("compile"):
            raise Refused(lines[0].removeprefix("dtc: ").removeprefix("error: "))
        if outcome.code:
            raise Differs(f"{what}: exit code {outcome.code}: {outcome.err.strip()[-600:]}")
        return outcome

    def compiled(self, name: str, devices: int, plan: dict, target: str) -> pathlib.Path:
        model = MODELS / (self.case.model if "." in self.case.model else f"{self.case.model}.onnx")
        path, artifact = self.folder / f"{name}.yaml", self.folder / f"{name}.dtc"
        path.write_text("plan: " + json.dumps(plan) + "\n")
        self.ended("compile " + name, call(
            "dtc", "compile", model, "--loss", "cross_entropy", "--global-batch", BATCH, "--devices", devices, "--target", target,
            *TARGETS[target], "--plan", path,
            *(self.class_weights if word == CLASS_WEIGHTS else word for word in self.case.recipe), "-o", artifact))
        return artifact

    def trained(self, name: str, artifact: pathlib.Path, *flags: object, steps: int = STEPS) -> tuple[list[dict], dict]:
        log, weights = self.folder / f"{name}.jsonl", self.folder / f"{name}.safetensors"
        if self.case.evaluates:
            flags += ("--eval-data", self.evaluated, "--eval-every", 1)
        self.ended("run " + name, call(
            "dtc-run", artifact, "--data", self.data, "--seed", 5, "--steps", steps, "--log", log, "--save-weights", weights, *flags,
            env=self.environment))
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return lines[-steps:], load_file(weights)

    def compare(self, what: str, lines: list[dict], weights: dict, expected: tuple[list[dict], dict]) -> None:
        """Losses, norms, scales and weights. What isn't finite must be so in both."""
        loss, norm, weight = (BOUNDS if self.target == "cpu" else GPU_BOUNDS)[self.case.precision]
        for got, want in zip(lines, expected[0][-len(lines):], strict=True):
            for key, bound in (("loss", loss), ("grad_norm", norm), ("loss_scale", 0), ("skipped_steps", 0), ("lr", 1e-12),
                               ("eval_loss", 2 * loss), ("dropped_tokens", 0)):
                if (got.get(key) is None) != (want.get(key) is None):
                    raise Differs(f"{what}: {key} of step {got['step']}: {got.get(key)}, not {want.get(key)}")
                if want.get(key) is not None and abs(got[key] - want[key]) > bound * abs(want[key]):
                    raise Differs(f"{what}: {key} of step {got['step']}: {got[key]}, not {want[key]}")
        if weights.keys() != expected[1].keys():
            raise Differs(f"{what}: other weights: {sorted(weights.keys() ^ expected[1].keys())}")
        for name, array in expected[1].items():
            error = numpy.abs(weights[name].astype("f8") - array.astype("f8")).max(initial=0)
            if not error <= weight * max(1, numpy.abs(array).astype("f8").max(initial=0)):
                raise Differs(f"{what}: {name} is off by {error}")

    def same(self, what: str, one: tuple[list[dict], dict], other: tuple[list[dict], dict], from_step: int = 1) -> None:
        for a, b in zip(one[0], other[0], strict=True):
            for key in ("loss", "grad_norm", "eval_loss"):
                if a["step"] >= from_step and a.get(key) != b.get(key):
                    raise Differs(f"{what}: {key} of step {a['step']}: {a.get(key)}, not {b.get(key)}")
        for name, array in one[1].items():
            if array.tobytes() != other[1][name].tobytes():
                raise Differs(f"{what}: {name} has other bits")

    def run(self) -> None:
        case = self.case
        (devices, plan), (others, other) = case.plans
        artifact = self.compiled("plan", devices, plan, self.target)
        second = artifact if other is plan else self.compiled("other", others, other, self.target)
        samples = plan["micro_batch"] * plan["dp"] * plan["ep"]
        alone = {"dp": 1, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "micro_batch": samples}
        alone |= {key: plan[key] for key in ("capacity", "overflow") if key in plan}
        expected = self.trained("one", self.compiled("one", 1, alone, "cpu"))
        found = self.trained("found", artifact)
        self.compare("against one rank", *found, expected)
        if case.processes:
            self.same("processes", found, self.trained("processes", artifact, "--processes"))
        saved = ["--checkpoint-dir", self.folder / "saved"]
        self.trained("half", artifact, *saved, steps=STEPS // 2)
        lines, weights = self.trained("resumed", second, *saved, "--resume", *(["--processes"] if case.processes else []))
        lines = lines[-STEPS // 2:]
        if lines[-1]["step"] != STEPS or len(lines) != STEPS // 2:
            raise Differs(f"resumed: ends after step {lines[-1]['step']} of {len(lines)}")
        self.compare("resumed", lines, weights, expected)
        if other is plan:
            self.same("resumed under its own plan", (found[0][STEPS // 2:], found[1]), (lines, weights))


def check(case: Case, folder: pathlib.Path, target: str = "cpu") -> str:
    """Raises Differs. An answer other than "" is why it was refused."""
    try:
        Runner(folder, case, target).run()
    except Refused as refused:
        return str(refused)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of cases")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for what cases write")
    parser.add_argument("--target", choices=TARGETS, default="cpu")
    given = parser.parse_args()
    endings = collections.Counter()
    for number in given.only or range(given.cases):
        case = drawn_case(given.seed, number)
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            if given.keep:
                folder = given.keep / str(number)
                folder.mkdir(parents=True, exist_ok=True)
            try:
                why = check(case, folder, given.target)
                ending, line = ("refused", why) if why else ("agrees", "")
            except Differs as differs:
                ending, line = "DIFFERS", str(differs)
        endings[ending] += 1
        print(f"{ending} {case.words()}" + (f"\n    {line}" if line else ""), flush=True)
    print(", ".join(f"{count} {ending}" for ending, count in sorted(endings.items())))
    return 1 if endings["DIFFERS"] else 0


if __name__ == "__main__":
    sys.exit(main())
