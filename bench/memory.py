"""Predicted memory against the arenas of compiled programs, for every role of a grid of plans.

    build/venv/bin/python bench/memory.py [--grid small wide] [--model NAME ...] [--plan TEXT] [--most SHARE]
    build/venv/bin/python bench/memory.py --grid sweep random [--sample 100] [--seed 1]

A row has a model, its plan, and for each rank of a pipeline what was predicted, the arena, and by how many
percent the prediction is too high. The last lines are the table of docs/Validation.md: by group of plans and
grid, how many ranks there are, and the largest error to either side. Exit code 1: an error is beyond --most.
The target check-memory runs both grids. The sweep draws plans of more models and of combinations of settings. The random
grid draws each setting by itself, also those that only a plan file may have.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "test" / "models"
BIN = pathlib.Path(os.environ.get("DTC_BIN", ROOT / "build" / "bin"))
sys.path.insert(0, str(ROOT / "test" / "Integration"))

# Beside each group of plans, how many ranks they have.
GROUPS = {
    "one mesh": [(1, "dp=1"), (2, "dp=2,micro_batch=2"), (2, "dp=1,tp=2"), (4, "dp=2,tp=2,micro_batch=2")],
    "recompute": [(devices, f"{plan},recompute={kind}") for kind in ("selective", "full")
                  for devices, plan in ((1, "dp=1"), (2, "dp=2,micro_batch=2"), (2, "dp=1,tp=2"))],
    "zero=1": [(2, "dp=2,zero=1"), (4, "dp=4,zero=1,micro_batch=1"), (4, "dp=2,tp=2,zero=1,micro_batch=2")],
    "zero=2": [(2, "dp=2,zero=2"), (4, "dp=4,zero=2,micro_batch=1"), (4, "dp=2,tp=2,zero=2,micro_batch=2")],
    "zero=3": [(2, "dp=2,zero=3"), (4, "dp=4,zero=3,micro_batch=1"), (4, "dp=2,tp=2,zero=3,micro_batch=2"),
               (4, "dp=4,zero=3,zero_group=2"), (2, "dp=2,zero=3,micro_batch=2,recompute=full")],
    **{kind: [(devices, f"pp={devices},dp=1,schedule={kind},micro_batch=1") for devices in (2, 4)]
       for kind in ("gpipe", "1f1b", "zb")},
    "interleaved": [(2, "pp=2,dp=1,schedule=interleaved,chunks=2,micro_batch=1")],
    "zbv": [(2, "pp=2,dp=1,schedule=zbv,chunks=2,micro_batch=1")],
    "pipeline, recompute": [(2, f"pp=2,dp=1,schedule={kind},micro_batch=1,recompute={recompute}")
                            for kind in ("1f1b", "zb") for recompute in ("selective", "full")],
    "pipeline, tp": [(4, "pp=2,tp=2,schedule=1f1b,micro_batch=1"), (4, "pp=2,tp=2,schedule=zb,micro_batch=1")],
    "pipeline, zero": [(4, f"pp=2,dp=2,schedule=1f1b,micro_batch=1,zero={level}") for level in (0, 1, 2, 3)]
                      + [(4, "pp=2,dp=2,schedule=zb,micro_batch=1,zero=2")],
    "pipeline, offload": [(devices, f"pp={devices},dp=1,schedule={kind},micro_batch=1,offload=optimizer")
                          for kind in ("1f1b", "zb") for devices in (2, 4)],
}
# Plans of which some layers are stored by the level below. A plan file says so.
MIXED = {
    "zero_blocks": [(devices, f"{plan},zero={level}") for level in (2, 3) for devices, plan in (
        (2, "dp=2"), (4, "dp=4,micro_batch=1"), (4, "dp=2,tp=2,micro_batch=2"), (2, "dp=2,micro_batch=2,recompute=full"))],
    "pipeline, zero_blocks": [(4, f"pp=2,dp=2,schedule={kind},micro_batch=1,zero={level}")
                              for kind in ("1f1b", "zb") for level in (2, 3)],
}
# The layers with the lower level, of models whose parameters say in which layer they are.
LOWER = {"gpt2": [(0,), (1,)], "llama": [(0,), (1,)], "wide": [(0, 1, 2), (1, 2, 3), (1, 3)]}
LAYER = re.compile(r"parameter: \S*?(?:layers|h)\.(\d+)\.")
SMALL = ["gpt2", "llama", "resnet_tiny", "t5", "mixtral", "moe"]
# Of the sweep. Pipelines have microbatches of one sample.
SWEPT = [*SMALL, "bart", "bert", "convnext", "gpt2_mask", "gpt_neox", "mistral", "mobilenet", "qwen2", "vit"]
SWEPT_PLANS = [
    *((devices, plan) for devices, plan in ((1, "dp=1"), (2, "dp=1,tp=2,sp=on"), (2, "cp=2,dp=1"), (4, "cp=2,tp=2,dp=1"))),
    *((4, f"dp=2,tp=2,micro_batch=2,zero={level}") for level in (0, 1, 2, 3)),
    *((2, f"dp=2,micro_batch=2,zero={level}") for level in (1, 2, 3)),
    *((2 * wide, f"pp=2,{axis}=2,schedule={kind},micro_batch=1" if wide == 2 else f"pp=2,dp=1,schedule={kind},micro_batch=1")
      for kind in ("gpipe", "1f1b", "zb", "interleaved,chunks=2", "zbv,chunks=2") for wide, axis in ((1, ""), (2, "tp"), (2, "cp"))),
    *((4, f"pp=2,dp=2,schedule={kind},micro_batch=1,zero={level}")
      for kind in ("1f1b", "zb", "interleaved,chunks=2", "zbv,chunks=2") for level in (2, 3)),
]
# Of the random grid: tokens that look up their experts are in these alone.
EXPERTS = ["mixtral", "moe", "olmoe.pt2", "qwen2_moe.pt2", "gpt_oss.pt2"]
RANDOM = [*SWEPT, *EXPERTS[2:], "points.pt2", "windows.pt2", "gpt2_dropout.pt2"]
RANKS = 8  # at most
TINY = 4096  # a stage that has nothing to do holds a few numbers
# What a model's shapes rule out, or what `dtc compile` refuses for it.
NOT_SPLIT = {"resnet_tiny": ("tp=",)}


@dataclasses.dataclass(frozen=True)
class Case:
    group: str
    model: str
    path: pathlib.Path
    devices: int
    plan: str
    batch: int = 8
    precision: str = "fp32"
    lower: tuple[int, ...] = ()  # layers that are stored by the level of ZeRO below the plan's
    optimizer: str = "adamw"
    whole: bool = False  # whether the plan has settings that a file alone may have

    def flags(self, plan: object = None) -> list[str]:
        return [str(each) for each in (
            self.path, "--target", "cpu", "--cluster", "cpu", "--loss", "cross_entropy", "--global-batch", self.batch,
            "--precision", self.precision, "--optimizer", self.optimizer, "--devices", self.devices, "--plan", plan or self.plan)]

    def words(self) -> str:
        recipe = [word for word, usual in ((self.precision, "fp32"), (self.optimizer, "adamw")) if word != usual]
        return " ".join([self.plan, *([f"without {self.lower}"] if self.lower else []), *recipe])


@dataclasses.dataclass(frozen=True)
class Role:
    predicted: int
    arena: int

    @property
    def error(self) -> float:
        return self.predicted / self.arena - 1


def wide_model(folder: pathlib.Path) -> pathlib.Path:
    """Four layers of width 256: what doesn't grow with the model is small there."""
    import llama_graph

    size = llama_graph.Llama(layers=4, hidden=256, heads=8, kv_heads=4, ffn=704, vocabulary=1024, sequence=128)
    return llama_graph.write(folder / "llama.onnx", size)


def swept(sample: int, seed: int) -> list[Case]:
    every = [Case("sweep", model, MODELS / f"{model}.onnx", devices, f"{plan},recompute={kind}", precision=precision)
             for model in SWEPT for devices, plan in SWEPT_PLANS for kind in ("none", "selective", "full")
             for precision in ("fp32", "bf16")]
    return random.Random(seed).sample(every, min(sample, len(every)))


def drawn_plan(draw: random.Random, model: str) -> tuple[int, str]:
    """Ranks and their plan, of which each setting that has any meaning is drawn by itself."""
    while True:
        plan = {axis: draw.choice(sizes) for axis, sizes in (
            ("dp", (1, 1, 2, 4)), ("tp", (1, 1, 1, 2)), ("pp", (1, 2, 2, 2, 3, 4)), ("cp", (1, 1, 1, 2)),
            ("ep", (1, 2) if model in EXPERTS else (1,)))}
        ranks = math.prod(plan.values())
        if ranks <= RANKS and not (model in NOT_SPLIT and plan["tp"] * plan["cp"] > 1):
            break
    plan["micro_batch"] = draw.choice([1, 1, 2, 4][:8 // (plan["dp"] * plan["ep"])])
    if plan["tp"] > 1:
        plan |= {"sp": draw.choice(["off", "on"]), "tp_weights": draw.choice(["any", "split"])}
    if plan["cp"] > 1:
        plan["cp_by"] = draw.choice(["keys", "heads", "ring"])
    if plan["cp"] > 1 or plan.get("sp") == "on":
        plan["regather"] = draw.choice(["off", "on"])
    if plan["dp"] > 1:
        plan["zero"] = draw.choice([0, 1, 2, 2, 3, 3])
        plan |= {"zero_group": draw.choice([0, 2])} if plan["dp"] == 4 and plan["zero"] else {}
        plan |= {"zero_blocks": 1} if plan["zero"] > 1 and draw.random() < 0.15 else {}
    if plan["pp"] > 1:
        plan["schedule"] = draw.choice(["gpipe", "1f1b", "interleaved", "zb", "zbv", "list"])
        plan |= {"chunks": 2} if plan["schedule"] in ("interleaved", "zbv") else {}
    plan["recompute"] = draw.choice(["none", "selective", "full"])
    plan |= {"recompute_blocks": 1} if plan["recompute"] != "none" and draw.random() < 0.3 else {}
    plan |= {"offload": "optimizer"} if draw.random() < 0.15 else {}
    return ranks, ",".join(f"{key}={value}" for key, value in plan.items())


def drawn(sample: int, seed: int) -> list[Case]:
    draw, result = random.Random(seed), []
    for _ in range(sample):
        model = draw.choice(RANDOM)
        precision, optimizer = draw.choice(["fp32", "fp32", "bf16", "bf16", "fp16", "bf16-true"]), draw.choice(["adamw", "adamw", "sgd"])
        ranks, plan = drawn_plan(draw, model)
        path = MODELS / (model if "." in model else f"{model}.onnx")
        result.append(Case("random", model, path, ranks, plan, precision=precision, optimizer=optimizer,
                           whole="_blocks=" in plan))
    return result


def cases(grids: list[str], folder: pathlib.Path) -> list[Case]:
    models = [(model, MODELS / f"{model}.onnx") for model in SMALL] if "small" in grids else []
    if "wide" in grids:
        models.append(("wide", wide_model(folder)))
    return [Case(group, model, path, devices, plan)
            for model, path in models for group, plans in GROUPS.items() for devices, plan in plans
            if not any(axis in plan for axis in NOT_SPLIT.get(model, ()))] + [
        Case(group, model, path, devices, plan, lower=lower)
        for model, path in models for group, plans in MIXED.items() for devices, plan in plans for lower in LOWER.get(model, [])]


def output(*command: object) -> str:
    done = subprocess.run([str(BIN / "dtc"), *map(str, command)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    return done.stdout


def with_lower_levels(saved: str, lower: tuple[int, ...]) -> str:
    """A saved plan, with these layers stored by the level of ZeRO below its own."""
    level = re.search(r"^  zero: (\d)$", saved, re.M).group(1)
    axes = re.compile({"2": "gradient_axes", "3": "storage_axes"}[level] + r": \[[^]]*\]")
    lines, layers = [], set()
    for line in saved.splitlines():
        layer = LAYER.search(line)
        if layer and axes.search(line):
            layers.add(int(layer.group(1)))
            if int(layer.group(1)) in lower:
                line = axes.sub(axes.pattern.split(":")[0] + ": []", line)
        lines.append(line)
    blocks = f"  zero: {level}\n  zero_blocks: {len(layers - set(lower))}\n"
    return "\n".join(lines).replace(f"  zero: {level}\n", blocks) + "\n"


def measure(case: Case) -> list[Role]:
    """A role for each rank of the pipeline. Stages of several chunks of a rank have the figure of the rank."""
    with tempfile.TemporaryDirectory() as folder:
        flags = case.flags()
        if case.whole:
            plan = pathlib.Path(folder) / "plan.yaml"
            plan.write_text("plan: {" + case.plan.replace("=", ": ").replace(",", ", ") + "}\n")
            flags = case.flags(plan)
        elif case.lower:
            plan = pathlib.Path(folder) / "plan.yaml"
            output("plan", *flags, "--save-plan", plan)
            plan.write_text(with_lower_levels(plan.read_text(), case.lower))
            flags = case.flags(plan)
        predicted = [stage["peak_memory_bytes"] for stage in json.loads(output("plan", *flags, "--json"))["stages"]]
        scheduled = output("compile", *flags, "--verify=off", "--emit", "schedule")
    arenas = [int(size) for size in re.findall(r"exec\.arena_bytes = (\d+)", scheduled)]
    return [Role(*each) for each in zip(predicted, arenas, strict=False)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", nargs="+", choices=["small", "wide", "sweep", "random"], default=["small", "wide"])
    parser.add_argument("--sample", type=int, default=100, help="so many plans of the sweep, and of the random grid")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", nargs="+", help="of these alone")
    parser.add_argument("--plan", default="", help="of plans with this text alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--most", type=float, default=1, help="the largest error that is no failure")
    given = parser.parse_args()
    os.environ["DTC_CALIBRATION"] = "off"
    worst: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        more = [draw(given.sample, given.seed) for grid, draw in (("sweep", swept), ("random", drawn)) if grid in given.grid]
        chosen = [case for case in [*cases(given.grid, pathlib.Path(folder)), *sum(more, [])]
                  if given.plan in case.plan and (not given.model or case.model in given.model)]
        for case, future in [(case, pool.submit(measure, case)) for case in chosen]:
            try:
                roles = future.result()
            except RuntimeError as refused:
                print(f"{case.model:12} {case.devices} {case.words():58} {refused}", flush=True)
                continue
            print(f"{case.model:12} {case.devices} {case.words():58} "
                  + "  ".join(f"{role.predicted} of {role.arena} {100 * role.error:+.1f} %" for role in roles), flush=True)
            grid = "wide" if case.model == "wide" else "small"
            worst.setdefault(case.group, {}).setdefault(grid, []).extend(role.error for role in roles if role.arena > TINY)
    for group, grids in worst.items():
        cells = (f"{len(errors)} | {100 * min(errors):+.1f}, {100 * max(errors):+.1f} %" for errors in grids.values())
        print(f"| {group} | {' | '.join(cells)} |")
    return any(abs(error) > given.most for grids in worst.values() for errors in grids.values() for error in errors)


if __name__ == "__main__":
    sys.exit(main())
