"""`dtc.plan`: how a model is split over devices, and why."""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _dtc
from ._cluster import Cluster
from ._errors import UsageError
from ._flags import LearningRate, Optimizer, flags_of, plan_flag, shape_flags, training_flags
from ._interruptible import interruptible
from ._models import ModelSource, shapes_of, source_of


class Text(str):
    """A text that a prompt shows as it is."""

    def __repr__(self) -> str:
        return str(self)


@dataclasses.dataclass(frozen=True)
class Stage:
    """A pipeline stage."""

    layers: tuple[int, int]  #: the first and the last one
    devices: tuple[int, ...]
    parameters: int
    peak_memory_bytes: int
    capacity_bytes: int
    forward_s: float
    backward_s: float


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of the fullest rank, by what they hold."""

    parameters: int
    gradients: int
    optimizer: int
    data: int
    activations: int
    reserved: int  #: by the device's context and by libraries
    cached: int  #: by PyTorch's allocator, where such a program is predicted
    total: int
    capacity: int  #: of the device

    def __str__(self) -> str:
        parts = [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)[:-2]]
        held = ", ".join(f"{name} {value / 2**20:.1f} MiB" for name, value in parts if value)
        return f"{held}; {self.total / 2**20:.1f} of {self.capacity / 2**20:.0f} MiB"


class Explanation(Text):
    """Why something was chosen, in words; `facts` has the same as docs/Json.md says."""

    facts: dict[str, Any]

    def __new__(cls, text: str, facts: dict[str, Any]) -> Explanation:
        """The text is the string."""
        made = super().__new__(cls, text)
        made.facts = facts
        return made


class ToolSettings(Text):
    """A plan in the settings of the program that is to run it, with a comment on each."""

    plan: Plan  #: the best that the program can run, with its figures
    facts: dict[str, Any]  #: the key `for` of docs/Json.md

    def __new__(cls, plan: Plan) -> ToolSettings:
        """The settings are the string, as `--save-settings` writes them."""
        made = super().__new__(cls, plan.facts["for"]["text"])
        made.plan, made.facts = plan, plan.facts["for"]
        return made

    def save(self, path: str | os.PathLike) -> None:
        """Writes the file that the program reads."""
        _dtc.write_text(os.fspath(path), self)


class Settings(dict):
    """The settings of a plan by name. Called, they are those of another program."""

    def __init__(self, values: dict[str, Any], plan: Plan):
        super().__init__(values)
        self._plan = plan

    def __call__(self, program: str) -> ToolSettings:
        """What `dtc plan --for PROGRAM` says: `plan.settings("megatron-core")`.

        The program can't run every plan, so that the model is planned again, as this program computes it.
        """
        return ToolSettings(self._plan._for(program))


class Plan:
    """A model with its plan. Printed, it is a table; in a notebook, the report."""

    def __init__(self, source: ModelSource, cluster: Cluster | None, flags: list[str]):
        self._source = source  # whose file the plan reads again
        self._cluster = cluster
        self._plan = interruptible(_dtc.Plan, [*source.arguments, *flags])
        self._flags = flags

    def _for(self, program: str) -> Plan:
        if f"--for={program}" in self._flags:
            return self
        return Plan(self._source, self._cluster,
                    [*(flag for flag in self._flags if not flag.startswith("--for=")), f"--for={program}"])

    @functools.cached_property
    def facts(self) -> dict[str, Any]:
        """All figures, as `dtc plan --json` prints them."""
        return json.loads(self._plan.json())

    @property
    def settings(self) -> Settings:
        """The degrees and everything else that was decided: `plan.settings["tp"]`. For another program they are
        `plan.settings("megatron-core")`."""
        return Settings(self.facts["plan"], self)

    @property
    def step_time(self) -> float:
        """Predicted seconds of a step."""
        return self.facts["predicted"]["step_time_s"]

    @property
    def fits(self) -> bool:
        """Whether each device has memory for its part."""
        return self.facts["predicted"]["fits"]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The pipeline's stages; one without a pipeline."""
        fields = [field.name for field in dataclasses.fields(Stage)]
        return tuple(Stage(**{key: tuple(stage[key]) if isinstance(stage[key], list) else stage[key] for key in fields})
                     for stage in self.facts["stages"])

    @property
    def memory(self) -> Memory:
        """What the fullest rank holds."""
        predicted = self.facts["predicted"]
        known = {field.name for field in dataclasses.fields(Memory)}
        fullest = max(self.stages, key=lambda stage: stage.peak_memory_bytes)
        return Memory(**{key: value for key, value in predicted["memory"].items() if key in known},
                      total=predicted["peak_memory_bytes"], capacity=int(fullest.capacity_bytes))

    def explain(self, subject: str | None = None) -> Explanation:
        """Why the plan is as it is, or why one setting (`"tp"`), parameter or node is."""
        text, facts = interruptible(self._plan.explain, subject)
        return Explanation(text, json.loads(facts))

    def compare(self, other: Plan) -> Text:
        """Both plans side by side, and where one loses time or memory against the other."""
        if not isinstance(other, Plan):
            raise UsageError(f"compare: expected what dtc.plan returns, got {type(other).__name__}")
        return Text(self._plan.compare(other._plan))

    def report(self, path: str | os.PathLike) -> None:
        """Writes the page about the plan: who holds what, the timetable of a step, time and memory."""
        _dtc.write_text(os.fspath(path), self._plan.page())

    def save(self, path: str | os.PathLike) -> None:
        """Writes the plan as a file to edit, and to give as `plan=` again."""
        _dtc.write_text(os.fspath(path), self._plan.yaml())

    def __str__(self) -> str:
        return self._plan.table()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = html.escape(self._plan.page(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 48em; border: 0" sandbox></iframe>'


def plan(model: Any = None, example_inputs: Any = None, *, hf: str | os.PathLike | None = None,
         sequence: int | None = None, gpus: int | None = None, devices: int | None = None,
         target: str | None = None, cluster: str | os.PathLike | Cluster | None = None,
         loss: str | None = None, optimizer: Optimizer | None = None, learning_rate: LearningRate | None = None,
         global_batch: int | None = None, micro_batch: int | None = None, precision: str | None = None,
         plan: str | os.PathLike | Mapping[str, Any] | None = None,
         shapes: Mapping[str, Sequence[int]] | None = None, freeze: str | None = None, train: str | None = None,
         flags: Sequence[str] = ()) -> Plan:
    """Plans how to train a model on GPUs (`gpus=64`) or on ranks of this processor (`devices=4`).

    `model` is the path of a model file, the bytes of an ONNX file, or a PyTorch module with `example_inputs`. Of a file,
    example inputs are a mapping of names to arrays, whose shapes replace symbolic ones, as `shapes` does. `hf` is a folder
    or config.json of Hugging Face instead, with samples of `sequence` tokens; `from_hf` has more to choose. `plan` pins
    settings: `{"tp": 8}`, `"dp=2,tp=4"`, or a file that `Plan.save` wrote. `flags` are further ones of `dtc plan`.

    Raises `PlanError` where nothing fits, `InputError` where a file is refused, `UsageError` where the request can't be
    meant. It needs no weights, and no GPU.
    """
    source = source_of(model, example_inputs, hf, sequence)
    if not source.from_torch:
        shapes = {**shapes_of(example_inputs), **(shapes or {})}
    made = cluster if isinstance(cluster, Cluster) else None
    asked = flags_of({
        "gpus": gpus, "devices": devices, "target": target, "cluster": made.name if made else cluster, "loss": loss,
        **training_flags(optimizer, learning_rate),
        "global_batch": global_batch, "micro_batch": micro_batch, "precision": precision, "plan": plan_flag(plan),
        "shape": shape_flags(shapes), "freeze": freeze, "train": train})
    return Plan(source, made, [*asked, *flags])
