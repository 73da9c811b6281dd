"""Published runs as inputs of `dtc plan`.

`runs.json` has a row for each run: the model's dimensions, the cluster (a key of `clusters.json`), the plan, what was
measured and where the number was read. `suites.json` says once for each suite of runs what its software does.
A run becomes a `Case`, or `Unsupported` says why it can't: nothing is guessed for a single run.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib

import graphs
from graphs import Unsupported

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Case:
    """One run, as dtc is asked about it."""

    run: dict
    graph: graphs.Dimensions
    spec: str
    cluster: dict  # the cluster file's content, with the suite's software
    precision: str
    memory_stated: bool  # whether the source says which memory the devices have
    reading: str = "device"  # what its memory figures are of: device (nvidia-smi), reserved, allocated or tensors


def load(name: str):
    return json.loads((HERE / f"{name}.json").read_text())


def vocabulary(run: dict, suite: dict) -> int:
    """Megatron pads the vocabulary so that 128 entries times the tensor-parallel degree divide it."""
    size = run["model"].get("vocab") or suite.get("vocabulary")
    if not size:
        raise Unsupported("vocabulary not stated")
    multiple = suite.get("vocabulary_multiple", 1)
    if multiple > 1:
        multiple *= run["plan"].get("tp") or 1
    return math.ceil(size / multiple) * multiple


def precision(run: dict) -> str:
    """fp16 is planned as bf16: sizes and rates are the same (V100, which has fp16 alone, gives its rate for both)."""
    text = run["plan"]["precision"]
    if text in ("fp16", "bf16", "amp_bf16", "fp16/bf16 (not stated)"):
        return "bf16"
    if text == "bf16-true":
        return text
    raise Unsupported(f"precision {text.split(' ')[0]}")


def schedule(plan: dict) -> list[str]:
    """The schedule's part of a SPEC; nothing without stages."""
    if plan["pp"] == 1:
        return []
    name, chunks = plan.get("schedule"), plan.get("vpp", 1)
    if name == "ZB-1p":
        return ["schedule=zb"]
    interleaved = chunks > 1 if name is None else name.startswith("interleaved") or name == "1F1B-I"
    if not interleaved:
        if name not in (None, "1F1B"):
            raise Unsupported(f"schedule {name}")
        return ["schedule=1f1b"]
    if chunks < 2:
        raise Unsupported("chunks of the interleaved schedule not stated")
    return ["schedule=interleaved", f"chunks={chunks}"]


def sharded_state(plan: dict) -> list[str]:
    """ZeRO's part of a SPEC. Sharding over one rank is none."""
    stage, ranks = plan.get("zero_stage") or 0, plan["dp"]
    if stage == 0 or ranks == 1:
        return ["zero=0"]
    if plan.get("ep", 1) > 1:
        return [f"zero={stage}"]  # over all ranks that hold the same: of experts fewer than of the rest
    group = plan.get("zero1_group", plan.get("fsdp"))
    size = int(group) if str(group).lstrip("-").isdigit() and not isinstance(group, bool) else -1
    return [f"zero={stage}", f"zero_group={size if 0 < size < ranks else ranks}"]


def recomputation(plan: dict) -> list[str]:
    """Recomputation's part of a SPEC. A recipe that doesn't state it ran with what its memory asked for: it is left
    to the planner, which takes the quickest that fits."""
    name = plan.get("recompute")
    if name is None:
        return []
    if name not in ("none", "full", "selective"):
        raise Unsupported(f"recomputation {name}")
    return [f"recompute={name}"]


def expert_parallelism(plan: dict) -> tuple[int, int]:
    """Data- and expert-parallel degrees of a SPEC, which multiply to the published dp: outside experts Megatron's ep
    splits the batch. Experts are split over tensor-parallel ranks, too, unless `etp` says otherwise."""
    ep = plan.get("ep", 1)
    if ep > 1 and plan.get("etp", plan["tp"]) != plan["tp"]:
        raise Unsupported("experts with tensor parallelism of their own")
    if plan["dp"] % ep:
        raise Unsupported("experts shared out among other than data-parallel ranks")
    return plan["dp"] // ep, ep


def spec(run: dict) -> str:
    """The plan as dtc's --plan takes it."""
    plan = run["plan"]
    missing = [key for key in ("dp", "tp", "pp", "cp", "micro_batch", "global_batch") if not plan.get(key)]
    if missing:
        raise Unsupported(f"{missing[0]} not stated")
    if plan["dp"] * plan["tp"] * plan["pp"] * plan["cp"] != run["gpus"]:
        raise Unsupported("degrees whose product isn't the number of GPUs")
    if plan["global_batch"] % (plan["dp"] * plan["micro_batch"]):
        raise Unsupported("a ragged last microbatch")
    dp, ep = expert_parallelism(plan)
    parts = [f"dp={dp}"] + [f"{key}={plan[key]}" for key in ("tp", "pp", "cp")] + [f"ep={ep}"]
    parts += [f"sp={'on' if plan.get('sequence_parallel') and plan['tp'] > 1 else 'off'}"]
    parts += sharded_state(plan) + schedule(plan) + recomputation(plan)
    return ",".join(parts + ["offload=none", f"micro_batch={plan['micro_batch']}"])


def software(run: dict, suite: dict) -> dict:
    """What the suite's program does otherwise than its preset (lib/Plan/Plan/Presets.yaml); `half_gradients` lists the precisions in which it keeps gradients in the
    parameters' type (Megatron sums them up in fp32 beside bf16 alone), `keeps_half_gradients` those in which a
    microbatch's stay beside such sums, `reduces_half_sums` those in which such sums are copied to be reduced;
    `unfused_rotary` lists the models whose rotary embeddings its fused kernel doesn't take."""
    facts = dict(suite["software"])
    if run["model"].get("family") in facts.pop("unfused_rotary", ()):
        facts["fused_rotary"] = False
    for key in ("half_gradients", "keeps_half_gradients", "reduces_half_sums"):
        if isinstance(facts.get(key), list):
            facts[key] = run["plan"]["precision"].split("/")[0] in facts[key]
    return facts


def case(run: dict, suite: dict, clusters: dict) -> Case:
    """Raises Unsupported for what dtc's inputs can't say and for what the source doesn't state."""
    if run.get("doubts"):
        raise Unsupported("numbers of the source that contradict each other")
    if "LoRA" in run["plan"].get("task", ""):
        raise Unsupported("LoRA")
    graph = graphs.dimensions(run["model"], vocabulary(run, suite))
    entry = clusters[run["cluster"]]
    cluster = dict(entry["cluster"], software=software(run, suite))
    return Case(run, graph, spec(run), cluster, precision(run), entry.get("memory_stated", True),
                suite.get("reading", "device"))


def measured_seconds(run: dict) -> float | None:
    """Of a step; from the tokens per second where the source prints those."""
    measured = run["measured"]
    if "iteration_time_s" in measured:
        return measured["iteration_time_s"]
    rate = measured.get("tokens_per_s_per_gpu")
    batch = run["plan"].get("global_batch")
    return batch * run["model"]["seq_len"] / (rate * run["gpus"]) if rate and batch else None


def measured_bytes(run: dict) -> float | None:
    gib = run["measured"].get("peak_mem_gib", run["measured"].get("total_gib"))
    return gib * 2**30 if gib else None


def active_parameters(model: dict, parameters: float) -> float:
    """Those that a token meets: of a mixture without the experts that it doesn't choose, and, as counts of active
    parameters go, without the embeddings, which are looked up."""
    experts = model.get("experts", 0)
    if not experts:
        return parameters
    expert = 3 * model["hidden"] * model.get("moe_ffn_hidden", model["ffn_hidden"])
    return parameters - model["layers"] * (experts - model["topk"]) * expert - model["vocab"] * model["hidden"]


def model_flops(run: dict, parameters: float) -> float:
    """Of a step: 6 flops a parameter that a token meets, and attention, not halved for causality."""
    model = run["model"]
    parameters = active_parameters(model, parameters)
    attention = 12 * model["layers"] * model["heads"] * model["head_dim"] * model["seq_len"]
    return (6 * parameters + attention) * model["seq_len"] * run["plan"]["global_batch"]


def dimension_error(run: dict, parameters: float) -> float | None:
    """How far the flops of a model with so many parameters are from those which the run's figures imply; None
    where the source's check is missing."""
    seconds, implied = measured_seconds(run), run.get("implied_tflops_per_gpu")
    if not seconds or not implied:
        return None
    return model_flops(run, parameters) / (seconds * run["gpus"] * implied * 1e12) - 1


def all_cases() -> tuple[list[Case], list[tuple[dict, str]]]:
    """The cases, and the runs that are none, with the reason."""
    suites, clusters = load("suites"), load("clusters")
    cases, others = [], []
    for run in load("runs"):
        try:
            cases.append(case(run, suites[run["suite"]], clusters))
        except Unsupported as reason:
            others.append((run, str(reason)))
    return cases, others


def graphs_needed(cases: list[Case]) -> list[graphs.Dimensions]:
    return sorted({c.graph for c in cases}, key=lambda dims: (dims.layers * dims.hidden, dims.name))
