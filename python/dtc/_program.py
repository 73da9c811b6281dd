"""`dtc.parallelize`: a model as a program of several ranks, which trains step by step."""

from __future__ import annotations

import math
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _dtc
from ._cluster import Cluster
from ._errors import InputError, UnsupportedError, UsageError, error_of
from ._flags import LearningRate, Optimizer, flags_of, plan_flag, shape_flags, training_flags
from ._interruptible import interruptible
from ._models import HfOrigin, ModelSource, shapes_of, source_of
from ._plan import Text

Step = _dtc.Step


class Program:
    """A compiled model whose ranks stay at hand between steps.

    Its weights begin as those of the artifact. Steps are those of `dtc-run`: with the same samples the losses are the
    same, bit by bit. A program without a loss (`loss="none"`) makes no steps: `forward` gives its outputs.
    """

    def __init__(self, artifact: str | os.PathLike, *, seed: int = 0, plan: str = "",
                 compilation: Compilation | None = None):
        self._compilation = compilation
        self._source = compilation.source if compilation else ModelSource("")
        os.environ.setdefault("NCCL_LAUNCH_ORDER_IMPLICIT", "1")  # as dtc-run
        self._program = _dtc.Program(os.fspath(artifact), seed)
        self._data: tuple[str, bool] | None = None
        self.plan = Text(plan)  #: the table of the plan that was compiled; empty for one that was loaded

    def __repr__(self) -> str:
        state = f"outputs={list(self.outputs)}" if self.outputs else f"steps_done={self.steps_done}"
        return f"Program(inputs={list(self.inputs)}, global_batch={self.global_batch}, devices={self.devices}, {state})"

    @property
    def steps_done(self) -> int:
        """Steps since the weights were loaded."""
        return self._program.steps_done

    @property
    def devices(self) -> int:
        """Ranks."""
        return self._program.world_size

    @property
    def global_batch(self) -> int:
        """Samples of a step."""
        return self._program.global_batch

    @property
    def inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Of each input, the target among them, the element type and the shape of a batch."""
        return {name: (dtype, shape) for name, dtype, shape in self._program.inputs()}

    @property
    def outputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Of a program without a loss: of each output the element type and the shape of a batch. Else there are none."""
        return {name: (dtype, shape) for name, dtype, shape in self._program.outputs()}

    def step(self, batch: Mapping[str, Any] | Sequence[Any]) -> Step:
        """Makes a step of one global batch, and returns its loss, gradient norm, learning rate and time.

        The batch has an array for each of `inputs`: a mapping by name, or a sequence in that order. Arrays are whatever
        has DLPack or the buffer protocol, such as NumPy's and PyTorch's, in the memory of the host. They aren't copied.
        """
        return self._program.step(self._named(batch))

    def forward(self, batch: Mapping[str, Any] | Sequence[Any], framework: str | None = None) -> dict[str, Any]:
        """The outputs of one global batch by name, of a program without a loss (`loss="none"`).

        The batch is one as `step` takes it. The values are arrays of what `state_dict` gives, and have DLPack.
        """
        convert = self._converter(framework)
        return {name: convert(name, array) for name, array in self._program.forward(self._named(batch)).items()}

    def _converter(self, framework: str | None) -> Callable[[str, Any], Any]:
        return _converter(framework or ("torch" if self._source.from_torch else "numpy"))

    def _named(self, batch: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        if isinstance(batch, Mapping):
            return dict(batch)
        names = list(self.inputs)
        if len(batch) != len(names):
            raise InputError(f"the batch: has {len(batch)} arrays, the program takes {', '.join(names)}")
        return dict(zip(names, batch))

    def evaluate(self, data: str | os.PathLike | Mapping[str, Any] | Sequence[Any]) -> float:
        """The mean loss of the weights as they are, which nothing changes.

        `data` is a file, of which whole global batches are taken in order, as of `dtc-run --eval-data`; or one global
        batch as `step` takes it.
        """
        if isinstance(data, (str, os.PathLike)):
            return self._program.evaluate(os.fspath(data))
        return self._program.evaluate_batch(self._named(data))

    def fit(self, dataset: Any, steps: int | None = None, *, shuffle: bool = True) -> list[Step]:
        """Makes steps and returns them.

        The data set is a file, as `dtc-run --data` takes it: without `steps`, one epoch of it is made, and a second call
        goes on where the first one ended. Or it iterates over batches, again and again until there are `steps`.
        """
        if steps is not None and steps < 0:
            raise UsageError(f"steps: expected a number from 0, got {steps}")
        if isinstance(dataset, Mapping):
            raise UsageError("a data set is a file or iterates over batches; one batch is for step")
        if isinstance(dataset, (str, os.PathLike)):
            return self._fit_file(os.fspath(dataset), steps, shuffle)
        made: list[Step] = []
        while True:
            before = len(made)
            for batch in dataset:
                if steps is not None and len(made) >= steps:
                    return made
                made.append(self.step(batch))
            if steps is None:
                return made
            if len(made) == before:
                raise InputError(f"the data set ended after {before} of {steps} steps; an iterator runs only once")

    def _fit_file(self, path: str, steps: int | None, shuffle: bool) -> list[Step]:
        if self._data != (path, shuffle):
            self._program.set_data(path, shuffle)
            self._data = path, shuffle
        if steps is None:
            steps = math.ceil(self._program.num_samples / self.global_batch)
        return [self._program.step_on_data() for _ in range(steps)]

    def state_dict(self, framework: str | None = None) -> dict[str, Any]:
        """Parameters and buffers by the model's names, in its shapes and types.

        The values are NumPy's arrays or PyTorch's tensors (`framework="numpy"` or `"torch"`); by default PyTorch's where
        the model is a PyTorch module. NumPy has no bf16. What a module's program doesn't read has the module's values.
        """
        convert = self._converter(framework)
        kept = self._source.state_names
        held = {name: convert(name, array) for name, array in self._program.weights().items()
                if kept is None or name in kept}
        return held | {name: convert(name, value.detach().clone()) for name, value in self._source.state.items()
                       if name not in held}

    def save_weights(self, path: str | os.PathLike) -> None:
        """Writes the weights as a safetensors file."""
        self._program.save_weights(os.fspath(path))

    def save_pretrained(self, folder: str | os.PathLike, *, base: str | os.PathLike | None = None,
                        architecture: str | None = None) -> None:
        """Writes the weights as a folder that `from_pretrained` of transformers loads.

        Configuration and tokenizer are those of the folder that the model came from; `base` names it for a program that
        was loaded. The weights are fp32.
        """
        from . import hf

        origin = HfOrigin(os.fspath(base), architecture) if base is not None else self._source.origin
        if origin is None:
            raise UsageError("the model isn't one of Hugging Face; base=FOLDER says which one it was")
        try:
            hf.save(origin.path, self.state_dict("torch"), folder, architecture=origin.architecture)
        except hf.HfError as error:
            raise error_of(error.exit_code, str(error)) from error

    def save(self, path: str | os.PathLike) -> None:
        """Writes an artifact with the weights as they are, which `dtc.load` and `dtc-run` take.

        After a step the model is compiled again under its plan, for the weights. The optimizer's states aren't part of
        an artifact. Raises `UnsupportedError` after a step of a program that was loaded, whose model isn't at hand.
        """
        if not self.steps_done:
            self._program.save_artifact(os.fspath(path))
        elif self._compilation:
            self._compilation.write(path, self)
        else:
            raise UnsupportedError("a loaded artifact can't be written with trained weights: save_weights writes them, "
                                   "and parallelize(..., weights=FILE) compiles the model with them")


class Compilation:
    """A model with the flags it is compiled with, and a folder for what is written on the way."""

    def __init__(self, source: ModelSource, arguments: Mapping[str, Any], flags: Sequence[str]):
        self.source = source
        self._arguments = dict(arguments)
        self._flags = list(flags)
        self._folder = tempfile.TemporaryDirectory(prefix="dtc-")
        self.artifact = pathlib.Path(self._folder.name) / "program.dtc"
        self._plan = pathlib.Path(self._folder.name) / "plan.yaml"

    def run(self) -> str:
        """Writes the artifact; the result is the table of its plan."""
        return self._compile({"output": self.artifact, "save_plan": self._plan})

    def write(self, path: str | os.PathLike, program: Program) -> None:
        """Writes an artifact of the same plan with the program's weights."""
        weights = pathlib.Path(self._folder.name) / "trained.safetensors"
        program.save_weights(weights)
        try:
            self._compile({"output": path, "plan": self._plan, "micro_batch": None, "global_batch": program.global_batch,
                           "weights": weights, "embed_weights": True, "init": False, "verify": False})
        finally:
            weights.unlink()

    def _compile(self, changes: Mapping[str, Any]) -> str:
        asked = flags_of({**self._arguments, **changes})
        return interruptible(_dtc.command, ["compile", *self.source.arguments, *asked, *self._flags])


def _converter(framework: str) -> Callable[[str, Any], Any]:
    if framework == "torch":
        import torch
        return lambda name, array: torch.from_dlpack(array)
    if framework != "numpy":
        raise UsageError(f"framework: expected numpy|torch, got '{framework}'")
    import numpy

    def to_numpy(name: str, array: Any) -> Any:
        try:
            return numpy.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError):
            raise UnsupportedError(f"{name}: NumPy has no such elements; state_dict(framework=\"torch\") has") from None

    return to_numpy


def parallelize(model: Any = None, example_inputs: Any = None, *, loss: str, hf: str | os.PathLike | None = None,
                sequence: int | None = None, devices: int | None = None,
                gpus: int | None = None, target: str | None = None,
                optimizer: Optimizer | None = None, learning_rate: LearningRate | None = None,
                clip_grad_norm: float | None = None, cluster: str | os.PathLike | Cluster | None = None,
                global_batch: int | None = None, micro_batch: int | None = None, precision: str | None = None,
                loss_scale: float | None = None, loss_scale_growth_interval: int | None = None,
                plan: str | os.PathLike | Mapping[str, Any] | None = None,
                shapes: Mapping[str, Sequence[int]] | None = None, weights: str | os.PathLike | None = None,
                init: bool = False, freeze: str | None = None, train: str | None = None,
                embed_weights: bool = True, threads_per_rank: int | None = None, verify: bool = False, seed: int = 0,
                flags: Sequence[str] = ()) -> Program:
    """Compiles a model for several ranks and starts them.

    Model, `hf`, shapes and plan are those of `dtc.plan`. `loss` is `cross_entropy`, `mse` or `output:NAME`, or `none` of
    a program that only computes outputs (`Program.forward`). Weights come from
    the model, from `weights` (safetensors), or with `init` from the seed. Without `embed_weights` the program reads weights of
    other files where they are, and can't be moved. `verify` proves first that the ranks compute
    what one rank does. The global batch is that of the example inputs, if nothing else is said; without any it is the
    file's for each data-parallel rank. `loss_scale` and `loss_scale_growth_interval` are `init_scale` and `growth_interval` of
    PyTorch's GradScaler, for `precision="fp16"`. `flags` are further ones of `dtc compile`.
    """
    source = source_of(model, example_inputs, hf, sequence, with_weights=weights is None and not init)
    if not source.from_torch:
        shapes = {**shapes_of(example_inputs), **(shapes or {})}
    compilation = Compilation(source, {
        "devices": devices, "gpus": gpus, "target": target, "loss": loss,
        "cluster": cluster.name if isinstance(cluster, Cluster) else cluster,
        **training_flags(optimizer, learning_rate),
        "clip_grad_norm": clip_grad_norm, "micro_batch": micro_batch,
        "global_batch": _batch_of(example_inputs) if global_batch is None else global_batch,
        "precision": precision, "loss_scale": loss_scale, "loss_scale_growth_interval": loss_scale_growth_interval,
        "plan": plan_flag(plan), "shape": shape_flags(shapes), "weights": weights, "init": init,
        "embed_weights": embed_weights,
        "freeze": freeze, "train": train, "threads_per_rank": threads_per_rank, "verify": verify}, flags)
    table = compilation.run()
    return Program(compilation.artifact, seed=seed, plan=table, compilation=compilation)


def _batch_of(example_inputs: Any) -> int | None:
    """The samples of example inputs, if there are any."""
    first = example_inputs
    if isinstance(first, Mapping):
        first = next(iter(first.values()), None)
    elif isinstance(first, (tuple, list)):
        first = first[0] if first else None
    shape = getattr(first, "shape", ())
    return int(shape[0]) if len(shape) else None


def load(artifact: str | os.PathLike, *, seed: int = 0) -> Program:
    """Starts the ranks of an artifact that `Program.save` or `dtc compile` wrote."""
    return Program(artifact, seed=seed)
