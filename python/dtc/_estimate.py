"""`dtc.estimate` and `dtc.simulate`: what a model needs, and how a step goes."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _dtc
from ._cluster import Cluster
from ._flags import flags_of, shape_flags
from ._interruptible import interruptible
from ._models import shapes_of, source_of
from ._plan import Plan


@dataclasses.dataclass(frozen=True)
class DeviceNeed:
    """How many devices of one type a job takes."""

    device: str
    memory_bytes: float
    count: int | None  #: None where no plan fits
    plan: dict[str, Any] | None
    peak_memory_bytes: int | None  #: of the fullest one


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What it takes to train a model in full, to train adapters (LoRA), and to run it."""

    parameters: int
    training: tuple[DeviceNeed, ...]
    adapters: tuple[DeviceNeed, ...]  #: empty with `lora_rank=0`
    inference: tuple[DeviceNeed, ...]
    facts: dict[str, Any]  #: as `dtc estimate --json` prints them

    def __repr__(self) -> str:
        rows = [f"{self.parameters:,} parameters"]
        for job in self.facts["jobs"]:
            needs = ", ".join(f"{need.count} {need.device}" for need in _needs(job) if need.count is not None)
            rows.append(f"{job['job']}: {needs or 'no device is enough'}")
        return "\n".join(rows)


def _needs(job: Mapping[str, Any]) -> tuple[DeviceNeed, ...]:
    return tuple(DeviceNeed(need["device"], need["memory_bytes"], need.get("count"), need.get("plan"),
                            need.get("peak_memory_bytes")) for need in job["devices"])


def estimate(model: Any = None, example_inputs: Any = None, *, hf: str | os.PathLike | None = None,
             sequence: int | None = None, cluster: str | os.PathLike | Cluster | None = None,
             gpu_memory: Sequence[str] = (), gpus: int | None = None, lora_rank: int = 16, gradients: str = "bf16",
             precision: str = "bf16", quantization: str | None = None, micro_batch: int = 1, loss: str | None = None,
             shapes: Mapping[str, Sequence[int]] | None = None) -> Estimate:
    """Says how few devices of each type will do; with `gpus`, what so many hold.

    Model, `hf`, shapes and precisions are those of `dtc.plan`. `gpu_memory` names devices by their memory: `["48GB"]`.
    `quantization` ("int8" or "int4") is of weights that don't train: under adapters, and for inference. `micro_batch` are
    the samples of a device at a time.
    """
    source = source_of(model, example_inputs, hf, sequence)
    if not source.from_torch:
        shapes = {**shapes_of(example_inputs), **(shapes or {})}
    asked = flags_of({"cluster": cluster.name if isinstance(cluster, Cluster) else cluster,
                      "gpu_memory": [gpu_memory] if isinstance(gpu_memory, str) else list(gpu_memory), "gpus": gpus, "lora_rank": lora_rank, "gradients": gradients,
                      "precision": precision, "quantization": quantization, "micro_batch": micro_batch,
                      "loss": loss, "shape": shape_flags(shapes), "json": True})
    facts = json.loads(interruptible(_dtc.command, ["estimate", *source.arguments, *asked]))
    full, *adapters, inference = facts["jobs"]  # in this order; without adapters there are two
    return Estimate(facts["model"]["parameters"], _needs(full), _needs(adapters[0]) if adapters else (),
                    _needs(inference), facts)


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A simulated step, in the format of Chrome's traces."""

    step_time: float  #: seconds
    events: tuple[dict[str, Any], ...]
    text: str = dataclasses.field(repr=False)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a file for ui.perfetto.dev."""
        _dtc.write_text(os.fspath(path), self.text)

    def __repr__(self) -> str:
        return f"Simulation(step_time={self.step_time:.6g}, {len(self.events)} events)"


def simulate(plan: Plan) -> Simulation:
    """Simulates a step of a plan: what each rank does when, and what it holds."""
    text = plan._plan.trace()
    trace = json.loads(text)
    return Simulation(plan.step_time, tuple(trace["traceEvents"] if isinstance(trace, dict) else trace), text)
