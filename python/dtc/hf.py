"""Models of Hugging Face's transformers as PyTorch programs, and trained weights back as a folder of theirs.

    python -m dtc.hf export FOLDER|config.json -o model.pt2 --sequence 8192 [--with-weights]
    python -m dtc.hf save FOLDER --weights trained.safetensors -o OUT

The command `dtc` carries this file, with `_decompositions.py` in the place of its import, and runs it for `--hf` with
whatever Python has transformers. So both see nothing else of the package. Nothing is downloaded, and no code of a model's folder runs.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._decompositions import functional

INSTALL = "pip install torch transformers"

FAILED, USAGE, REFUSED = 1, 2, 3  # exit codes of the command line

# A batch of one may stand for a broadcast, so that two are exported.
_EXAMPLES = 2
_TEXT = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_DECODER_TEXT = frozenset({"decoder_input_ids", "decoder_attention_mask"})
# The form of experts that doesn't loop over those that are found at run time.
_EXPERTS = "batched_mm"

# What a config.json may have, by parts of names: hundreds of times what the largest models do.
_MOST_BYTES = 16 << 20
_MOST = {"layer": 1 << 14, "expert": 1 << 14, "depth": 1 << 14, "block": 1 << 24, "position": 1 << 27, "vocab": 1 << 27,
         "hidden": 1 << 24, "embd": 1 << 24, "intermediate": 1 << 27, "head": 1 << 24}


class HfError(Exception):
    """What can't be exported or saved, and the exit code that says of which kind it is."""

    def __init__(self, text: str, exit_code: int = REFUSED, *, lacks_package: bool = False):
        super().__init__(text)
        self.exit_code = exit_code
        self.lacks_package = lacks_package


def _libraries() -> tuple[Any, Any]:
    """PyTorch and transformers, which only this file needs."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise HfError(f"models of Hugging Face need PyTorch and transformers ({error}): {INSTALL}",
                      lacks_package=True) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return torch, transformers


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def first_paragraph(error: Exception) -> str:
    """As one line. A field that is refused is named in its first, and why in the next one."""
    return " ".join(str(error).strip().split("\n\n")[0].split()) or type(error).__name__


def _check_file(path: pathlib.Path) -> None:
    """A pipe would be waited for, and a device read for ever."""
    if not path.is_file():
        raise HfError(f"{path}: not a regular file")
    if path.stat().st_size > _MOST_BYTES:
        raise HfError(f"{path}: has more than {_MOST_BYTES} bytes: {path.stat().st_size}")


def too_large_in(settings: Mapping[Any, Any]) -> str:
    """What of a configuration would take for ever, as modules are made one by one, and tables of positions are filled."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            if found := too_large_in(value):
                return f"{name}.{found}"
        most = next((most for part, most in _MOST.items() if part in str(name)), None)
        numbers = value if isinstance(value, (list, tuple)) else [value]
        if most and any(isinstance(number, int) and number > most for number in numbers):
            return f"{name} {max(number for number in numbers if isinstance(number, int))} is above {most}"
    return ""


class Checkpoint:
    """A folder or config.json: its configuration, and the class of transformers that is trained."""

    def __init__(self, path: str | os.PathLike, architecture: str | None = None):
        self.path = pathlib.Path(path)
        self._torch, self._transformers = _libraries()
        if not self.path.exists():
            raise HfError(f"{path}: no such folder or config.json; nothing is downloaded", USAGE)
        if self.path.is_dir() and not (self.path / "config.json").is_file():
            raise HfError(f"{path}: the folder has no config.json")
        if not self.path.is_dir():
            _check_file(self.path)
        try:
            self.config = self._transformers.AutoConfig.from_pretrained(
                str(self.path), local_files_only=True, trust_remote_code=False)
        except Exception as error:  # of many kinds, from all that a file may say
            raise HfError(f"{path}: transformers refuses the configuration: {first_paragraph(error)}") from error
        if too_large := too_large_in(self.config.to_dict()):
            raise HfError(f"{path}: no model has so much: {too_large}")
        self.model_class = self._class_of(architecture)
        if hasattr(self.config, "_experts_implementation"):
            self.config._experts_implementation = _EXPERTS

    def _class_of(self, architecture: str | None) -> type:
        asked = architecture or next(iter(self.config.architectures or []), None)
        likely = self._likely_class()
        if asked is None and likely is None:
            raise HfError(f"{self.path}: has no architectures; give one, as BertForMaskedLM", USAGE)
        found = getattr(self._transformers, asked, None) if asked else likely
        if not (inspect.isclass(found) and issubclass(found, self._transformers.PreTrainedModel)):
            raise HfError(f"{self.path}: transformers has no model {asked}; models with code of their own are not taken")
        if not architecture and "For" not in found.__name__ and "LMHead" not in found.__name__:
            other = f", as {likely.__name__}" if likely else ""
            raise HfError(f"{self.path}: {found.__name__} ends without a head that is trained; name a class with one as "
                          f"the architecture{other}", USAGE)
        return found

    def _likely_class(self) -> type | None:
        for kind in ("Seq2SeqLM", "SpeechSeq2Seq", "MaskedLM", "CausalLM", "ImageClassification"):
            known = getattr(self._transformers, f"AutoModelFor{kind}", None)
            if known is not None and type(self.config) in known._model_mapping:
                found = known._model_mapping[type(self.config)]
                return found[0] if isinstance(found, tuple) else found
        return None

    def skeleton(self) -> Any:
        """The model with parameters of no memory. Its buffers are computed, as masks and angles are made of them."""
        try:
            with _parameters_on_meta(self._torch):
                return self.model_class._from_config(self.config, dtype=self._torch.float32).eval()
        except Exception as error:  # of many kinds, from sizes that don't fit each other or no memory
            raise HfError(f"{self.path}: transformers can't make the model: {first_line(error)}") from error

    def has_weights(self) -> bool:
        """Whether the folder has safetensors."""
        return self.path.is_dir() and any(self.path.glob("*.safetensors"))

    def with_weights(self) -> Any:
        """The model with the folder's weights. Weights that the folder lacks are an error."""
        if not self.path.is_dir():
            raise HfError(f"{self.path}: a configuration has no weights; give the folder", USAGE)
        try:
            model, loaded = self.model_class.from_pretrained(
                str(self.path), config=self.config, dtype=self._torch.float32, use_safetensors=True,
                local_files_only=True, output_loading_info=True)
        except Exception as error:  # of many kinds, from all that a folder may hold
            raise HfError(f"{self.path}: transformers can't load the weights: {first_line(error)}") from error
        for what in ("missing_keys", "mismatched_keys", "error_msgs"):
            if loaded.get(what):
                names = ", ".join(sorted(map(str, loaded[what]))[:8])
                raise HfError(f"{self.path}: the weights don't fit {self.model_class.__name__} ({what[:-5]}): {names}")
        return model.eval()


@contextlib.contextmanager
def _parameters_on_meta(torch: Any) -> Iterator[None]:
    """Inside, parameters of new modules lose their memory as soon as they are registered."""
    register = torch.nn.Module.register_parameter

    def without_memory(module: Any, name: str, parameter: Any) -> None:
        register(module, name, parameter)
        if parameter is not None and parameter.device.type != "meta":
            module._parameters[name] = torch.nn.Parameter(parameter.to("meta"), parameter.requires_grad)

    torch.nn.Module.register_parameter = without_memory
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def _make_fake(torch: Any, model: Any) -> None:
    """Meta parameters as fake ones on the processor, where the buffers are; tied ones stay tied."""
    from torch._subclasses import FakeTensorMode

    made: dict[int, Any] = {}
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in model.modules():
            for name, parameter in module._parameters.items():
                if parameter is None:
                    continue
                if id(parameter) not in made:
                    fake = torch.empty(parameter.shape, dtype=parameter.dtype)
                    # The meta parameter is kept, so that no other one gets its identity.
                    made[id(parameter)] = torch.nn.Parameter(fake, parameter.requires_grad), parameter
                module._parameters[name] = made[id(parameter)][0]


def ties_of(model: Any) -> dict[str, str]:
    """What a program without weights is saved with: which names of its fake tensors are one weight."""
    from torch._subclasses import FakeTensor

    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor.data, FakeTensor):
            names.setdefault(id(tensor), []).append(name)
    ties = [group for group in names.values() if len(group) > 1]
    return {"tied_weights.json": json.dumps(ties)} if ties else {}


#: Functions whose backward pass is the gradient of the forward one, written out.
EXACT_FUNCTIONS = {"transformers.models.bloom.modeling_bloom.GeLUFunction", "transformers.models.sew_d.modeling_sew_d.XSoftmax"}


@contextlib.contextmanager
def own_gradients(torch: Any, model: Any) -> Iterator[dict[str, str]]:
    """What an export is saved with: what has another gradient in PyTorch than what its program computes, by names.

    These are hooks, and functions with a backward pass of their own. Reentrant checkpoints are such a function, too: a
    program has what they compute without gradients. Functions whose backward pass is the gradient of the forward one aren't.
    """
    names = [f"the hook of {name or type(part).__name__}" for name, part in model.named_modules()
             if part._backward_hooks or part._backward_pre_hooks]
    names += [f"the hook of {name}" for name, part in model.named_parameters()
              if part._backward_hooks or part._post_accumulate_grad_hooks]
    function, tensor, found = torch.autograd.Function, torch.Tensor, {}
    apply, register_hook = inspect.getattr_static(function, "apply"), tensor.register_hook

    def noting_apply(kind: type, *args: Any, **kwargs: Any) -> Any:
        # Those of torch.nn call the hooks of modules.
        if kind.__module__ != "torch.nn.modules._functions" and f"{kind.__module__}.{kind.__name__}" not in EXACT_FUNCTIONS:
            names.append(f"{kind.__name__}.backward")
        return apply.__get__(None, kind)(*args, **kwargs)

    def noting_hook(self: Any, hook: Any) -> Any:
        names.append("the hook of a tensor")
        return register_hook(self, hook)

    function.apply, tensor.register_hook = classmethod(noting_apply), noting_hook
    try:
        yield found
    finally:
        function.apply, tensor.register_hook = apply, register_hook
    if names:
        found["own_gradients.txt"] = ", ".join(dict.fromkeys(names))


@contextlib.contextmanager
def experts_as_products(model: Any) -> Iterator[None]:
    """Has a model of transformers multiply its experts all at once. Its other forms ask which experts are chosen."""
    configs = {id(each): each for module in model.modules()
               if hasattr(each := getattr(module, "config", None), "_experts_implementation")}
    before = {key: config._experts_implementation for key, config in configs.items()}
    for config in configs.values():
        config._experts_implementation = _EXPERTS
    try:
        yield
    finally:
        for key, config in configs.items():
            config._experts_implementation = before[key]


def _size_of_images(config: Any) -> tuple[int, ...]:
    vision = getattr(config, "vision_config", None) or config
    size = getattr(vision, "image_size", None)
    if size is None:
        raise HfError("the configuration has no image_size: add one to config.json, as \"image_size\": 224")
    sides = (size, size) if isinstance(size, int) else tuple(size)
    return getattr(vision, "num_channels", 3), *sides


def _shape_of(config: Any, name: str, sequence: int | None, decoder_sequence: int | None) -> tuple[int, ...]:
    """Of one sample."""
    if name in _TEXT | _DECODER_TEXT | {"input_values"}:
        length = (decoder_sequence or sequence) if name in _DECODER_TEXT else sequence
        if not length:
            raise HfError("--sequence is required: how many tokens a sample has", USAGE)
        if length < 1:
            raise HfError(f"--sequence must be above 0, got {length}", USAGE)
        return (length,)
    if name == "pixel_values":
        return _size_of_images(config)
    if name == "input_features":
        return config.num_mel_bins, 2 * config.max_source_positions
    known = ", ".join(sorted(_TEXT | _DECODER_TEXT | {"pixel_values", "input_features", "input_values"}))
    raise HfError(f"{name}: an input of unknown shape; known are {known}", USAGE)


def _inputs_of(checkpoint: Checkpoint, asked: Sequence[str] | None) -> list[str]:
    """The names of what the model is called with: what it can't do without, if nothing is asked for."""
    decoder = ["decoder_input_ids"] if getattr(checkpoint.config, "is_encoder_decoder", False) else []
    return list(asked or [checkpoint.model_class.main_input_name, *decoder])


def _only_logits(model: Any, names: Sequence[str]) -> None:
    """Makes the model take tensors by name and return what its loss is computed of. Parameters keep their names."""
    import torch

    kind = type(model)
    takes = inspect.signature(kind.forward).parameters
    unknown = [name for name in names if name not in takes]
    if unknown:
        raise HfError(f"{kind.__name__} takes no {', '.join(unknown)}", USAGE)
    # BERT and its kin take segments of zeros from a table, by positions that may depend on the tokens. Others, such as
    # GPT-2, have none unless they are given.
    has_segments = (getattr(model.config, "type_vocab_size", 0) > 0 and "token_type_ids" in takes
                    and "input_ids" in names and "token_type_ids" not in names)

    def forward(self: Any, **inputs: Any) -> Any:
        if has_segments:
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        if "use_cache" in takes:
            inputs["use_cache"] = False
        result = kind.forward(self, **inputs)
        return result.logits if hasattr(result, "logits") else result[0]

    forward.__signature__ = inspect.Signature(  # which torch.export calls the inputs after
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *names)])
    model.__class__ = type(kind.__name__, (kind,), {"forward": forward})


@contextlib.contextmanager
def without_graphs() -> Iterator[None]:
    """Keeps back what PyTorch prints of an export that fails: the graph so far. Its error says what is wrong."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        yield
    sys.stderr.write(said.getvalue())


def _export(torch: Any, model: Any, examples: Mapping[str, Any], operators: Collection[str]) -> Any:
    """With an open batch; where the model fixes its batch, with the one of the examples."""
    batch = torch.export.Dim("batch", min=1)
    for shapes in ({name: {0: batch} for name in examples}, None):
        try:
            with without_graphs():
                program = torch.export.export(model, (), dict(examples), dynamic_shapes=shapes)
            return functional(torch, program, operators)
        except Exception as error:  # of many kinds: a model may compute with its batch as with any number
            why = error
    raise HfError(f"torch.export doesn't take {type(model).__name__}: {first_line(why)}") from why


def export(path: str | os.PathLike, output: str | os.PathLike, *, sequence: int | None = None,
           decoder_sequence: int | None = None, inputs: Sequence[str] | None = None, architecture: str | None = None,
           with_weights: bool = False, operators: Collection[str] = ()) -> frozenset[str]:
    """Writes the model of a folder or config.json as a program (.pt2), with its weights or without any.

    `operators` are those that dtc reads. Returns the names of the model's `state_dict`.
    """
    checkpoint = Checkpoint(path, architecture)
    import torch

    # RWKV would halve weights in place, which half precision needs when it computes outputs alone.
    if getattr(checkpoint.config, "rescale_every", 0):
        checkpoint.config.rescale_every = 0
    names = _inputs_of(checkpoint, inputs)
    shapes = {name: _shape_of(checkpoint.config, name, sequence, decoder_sequence) for name in names}
    model = checkpoint.with_weights() if with_weights else checkpoint.skeleton()
    if not with_weights:
        _make_fake(torch, model)
    _only_logits(model, names)
    examples = {name: torch.zeros((_EXAMPLES, *shape), dtype=torch.int64 if name in _TEXT | _DECODER_TEXT else torch.float32)
                for name, shape in shapes.items()}
    for name in set(names) & {"attention_mask", "decoder_attention_mask"}:
        examples[name].fill_(1)
    with own_gradients(torch, model) as own:
        program = _export(torch, model, examples, operators)
    torch.export.save(program, os.fspath(output), extra_files={**ties_of(model), **own})
    return frozenset(model.state_dict())


def save(path: str | os.PathLike, tensors: Mapping[str, Any], output: str | os.PathLike, *,
         architecture: str | None = None) -> None:
    """Writes trained weights as a folder that `from_pretrained` loads. Tokenizers and the like come from the old one."""
    checkpoint = Checkpoint(path, architecture)
    import safetensors  # which transformers needs, too

    # What the logits don't depend on was never part of the program, and stays as it was.
    model = checkpoint.with_weights() if checkpoint.has_weights() else checkpoint.skeleton()
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    strange = sorted(set(tensors) - set(shapes) - {name for name, _ in model.named_buffers()})
    if strange:
        raise HfError(f"{path}: {checkpoint.model_class.__name__} has no {', '.join(strange[:8])}")
    given = {name: tensors[name] for name in sorted(set(shapes) & set(tensors))}
    for name, tensor in given.items():
        if shapes[name] != tensor.shape:
            raise HfError(f"{path}: {name} has the shape {list(shapes[name])}, the weights have {list(tensor.shape)}")
    model.load_state_dict(given, strict=False, assign=True)
    model.tie_weights()
    lacking = sorted(name for name, tensor in model.state_dict().items() if tensor.device.type == "meta")
    if lacking:
        raise HfError(f"{path}: the weights lack {', '.join(lacking[:8])}")
    if pathlib.Path(output).exists() and not pathlib.Path(output).is_dir():  # which transformers only logs
        raise HfError(f"{output}: cannot write: it is no folder", FAILED)
    try:
        model.save_pretrained(os.fspath(output))
        if checkpoint.path.is_dir():
            _copy_beside(checkpoint.path, pathlib.Path(output))
    except (OSError, safetensors.SafetensorError) as error:
        raise HfError(f"{output}: cannot write: {first_line(error)}", FAILED) from error


def _copy_beside(folder: pathlib.Path, output: pathlib.Path) -> None:
    """Vocabularies and settings, which training leaves as they are."""
    weights = (".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json")
    for file in sorted(folder.iterdir()):
        kept = file.suffix in {".json", ".txt", ".model", ".jinja"} and not file.name.endswith(weights)
        if kept and file.is_file() and not (output / file.name).exists():
            shutil.copyfile(file, output / file.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dtc.hf", description="models of Hugging Face, in and out")
    commands = parser.add_subparsers(dest="command", required=True)
    writes = commands.add_parser("export", help="write a model as a program (.pt2)")
    writes.add_argument("--sequence", type=int, help="tokens of a sample")
    writes.add_argument("--decoder-sequence", type=int, help="tokens of a sample of the decoder, if others")
    writes.add_argument("--inputs", type=lambda text: text.split(","), help="what the model is called with: NAME,...")
    writes.add_argument("--operators", type=lambda text: text.split(","), default=(), help="those that dtc reads")
    writes.add_argument("--with-weights", action="store_true", help="with the weights of the folder")
    saves = commands.add_parser("save", help="write trained weights as a folder that from_pretrained loads")
    saves.add_argument("--weights", required=True, help="what dtc-run --save-weights wrote")
    for command in (writes, saves):
        command.add_argument("model", help="a folder, or a config.json")
        command.add_argument("--architecture", help="the class of transformers, if not that of the configuration")
        command.add_argument("-o", "--output", required=True)
    return parser


def _run(asked: argparse.Namespace) -> None:
    if asked.command == "export":
        export(asked.model, asked.output, sequence=asked.sequence, decoder_sequence=asked.decoder_sequence,
               inputs=asked.inputs, architecture=asked.architecture, with_weights=asked.with_weights,
               operators=asked.operators)
        return
    _libraries()
    import safetensors.torch  # which transformers needs, too

    try:
        weights = safetensors.torch.load_file(asked.weights)
    except (OSError, safetensors.SafetensorError) as error:
        raise HfError(f"{asked.weights}: cannot read the weights: {first_line(error)}") from error
    save(asked.model, weights, asked.output, architecture=asked.architecture)


def main(arguments: Iterable[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    try:
        _run(_parser().parse_args(None if arguments is None else list(arguments)))
    except HfError as error:
        print(f"dtc: error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
