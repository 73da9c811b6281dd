"""The data that the models are trained on: tokens of a real English text, and small made-up classification sets.

Targets are ragged on purpose: single positions, tails and whole samples are ignored (-100), and the first four samples
of the third batch are ignored together, so that under data parallelism some ranks have nothing to learn from.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import sizes
import zoo
from draw import Distribution, draw, uniform

TEXT = Path("/usr/share/common-licenses/GPL-3")  # verbatim copies are allowed to everyone
IGNORED = -100
MASK_ID = 3
EMPTY_RUN = range(16, 20)  # samples without any target: half of the third batch of 8


def tokenize(text: str, vocabulary: int) -> tuple[list[int], list[str]]:
    """Byte-pair encoding learnt on the text itself: its characters, sorted, then the most frequent pairs, merged.

    Returns the tokens and what each id stands for. Ties between pairs go to the smallest ids.
    """
    pieces = sorted(set(text))
    ids = {piece: index for index, piece in enumerate(pieces)}
    tokens = [ids[character] for character in text]
    while len(pieces) < vocabulary:
        counts = Counter(zip(tokens, tokens[1:], strict=False))
        pair = min(counts, key=lambda candidate: (-counts[candidate], candidate))
        tokens = _merge(tokens, pair, len(pieces))
        pieces.append(pieces[pair[0]] + pieces[pair[1]])
    return tokens, pieces


def _merge(tokens: list[int], pair: tuple[int, int], merged: int) -> list[int]:
    """The tokens with every occurrence of the pair, from the left, replaced by one token."""
    result = []
    position = 0
    while position < len(tokens):
        if tuple(tokens[position : position + 2]) == pair:
            result.append(merged)
            position += 2
        else:
            result.append(tokens[position])
            position += 1
    return result


def write_text(folder: Path) -> None:
    """Writes text.bin (uint16 tokens, as dtc-run reads them) and text.vocabulary.json (the string of each id)."""
    tokens, pieces = tokenize(TEXT.read_text(encoding="ascii"), sizes.VOCABULARY)
    np.asarray(tokens, dtype="<u2").tofile(folder / "text.bin")
    (folder / "text.vocabulary.json").write_text(json.dumps(pieces) + "\n")


def arrays(model: zoo.Model, folder: Path) -> dict[str, np.ndarray]:
    """The arrays of MODEL.data.safetensors: the model's inputs and `target`; language models read FOLDER/text.bin."""
    make = {
        zoo.Task.NEXT_TOKEN: _language,
        zoo.Task.NEXT_TOKEN_PADDED: _padded_language,
        zoo.Task.MASKED_TOKEN: _masked_language,
        zoo.Task.CONTINUATION: _continuation,
        zoo.Task.TEXT_CLASS: _text_classification,
        zoo.Task.CLASS: _classification,
    }
    result = make[model.task](model, folder)
    if model.vocabulary != sizes.VOCABULARY:  # the last tokens of the text are rare
        for name in ("input_ids", "target"):
            np.minimum(result[name], model.vocabulary - 1, out=result[name])
    return result


def _windows(model: zoo.Model, folder: Path, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and next tokens of consecutive windows of the text, from window `first` on."""
    tokens = np.fromfile(folder / "text.bin", dtype="<u2").astype(np.int64)
    starts = (first + np.arange(model.samples))[:, None] * sizes.SEQUENCE + np.arange(sizes.SEQUENCE)
    return tokens[starts], tokens[starts + 1]


def _language(model: zoo.Model, folder: Path) -> dict[str, np.ndarray]:
    inputs, target = _windows(model, folder, first=0)
    _ignore_positions(model.name, target)
    _ignore_samples(model.name, target)
    return {"input_ids": inputs, "target": target}


def _padded_language(model: zoo.Model, folder: Path) -> dict[str, np.ndarray]:
    """A third of the samples padded on the right, a third on the left; nothing is predicted from or for padding."""
    inputs, target = _windows(model, folder, first=200)
    lengths = (8 + uniform(f"{model.name}.length", model.samples) * (sizes.SEQUENCE - 8)).astype(np.int64)
    position = np.arange(sizes.SEQUENCE)
    mask = np.ones_like(inputs)
    mask[1::3] = position < lengths[1::3, None]
    mask[2::3] = position >= sizes.SEQUENCE - lengths[2::3, None]
    inputs[mask == 0] = 0
    last_of_right_padded = np.zeros_like(mask, dtype=bool)
    last_of_right_padded[1::3] = position == lengths[1::3, None] - 1
    target[(mask == 0) | last_of_right_padded] = IGNORED
    _ignore_samples(model.name, target)
    return {"input_ids": inputs, "attention_mask": mask, "target": target}


def _masked_language(model: zoo.Model, folder: Path) -> dict[str, np.ndarray]:
    """A third of the samples padded on the right; one token in five is replaced by MASK_ID and asked for. The second
    segment begins somewhere in the text."""
    inputs, _ = _windows(model, folder, first=100)
    position = np.arange(sizes.SEQUENCE)
    ends = (8 + uniform(f"{model.name}.length", model.samples) * (sizes.SEQUENCE - 8)).astype(np.int64)
    mask = np.ones_like(inputs)
    mask[1::3] = position < ends[1::3, None]
    segments = (position >= ends[:, None] // 2).astype(np.int64)
    asked = (uniform(f"{model.name}.masked", inputs.size).reshape(inputs.shape) < 1 / 5) & (mask == 1)
    target = np.where(asked, inputs, IGNORED)
    inputs[asked] = MASK_ID
    inputs[mask == 0] = 0
    _ignore_samples(model.name, target)
    return {"input_ids": inputs, "attention_mask": mask, "token_type_ids": segments, "target": target}


def _continuation(model: zoo.Model, folder: Path) -> dict[str, np.ndarray]:
    """A window of the text for the encoder, the one after it for the decoder."""
    inputs, _ = _windows(model, folder, first=150)
    decoder_inputs, target = _windows(model, folder, first=151)
    _ignore_positions(model.name, target)
    _ignore_samples(model.name, target)
    return {"input_ids": inputs, "decoder_input_ids": decoder_inputs, "target": target}


def _text_classification(model: zoo.Model, folder: Path) -> dict[str, np.ndarray]:
    """Windows of the text; the class is that of the first token."""
    inputs, _ = _windows(model, folder, first=50)
    target = inputs[:, 0] % sizes.CLASSES
    _ignore_samples(model.name, target)
    return {"input_ids": inputs, "target": target}


def _classification(model: zoo.Model, folder: Path) -> dict[str, np.ndarray]:
    """Noise around one point a class."""
    shape = model.shape
    target = (uniform(f"{model.name}.class", model.samples) * sizes.CLASSES).astype(np.int64)
    centres = draw(f"{model.name}.centres", Distribution((sizes.CLASSES, *shape), 0.0, 0.7))
    noise = draw(f"{model.name}.noise", Distribution((model.samples, *shape), 0.0, 0.7))
    inputs = (centres[target] + noise).astype(np.float32)
    _ignore_samples(model.name, target)
    return {"x": inputs, "target": target}


def _ignore_positions(name: str, target: np.ndarray) -> None:
    """Ignores one position in seven, and the tail of one sample in three."""
    target[uniform(f"{name}.ignored", target.size).reshape(target.shape) < 1 / 7] = IGNORED
    lengths = (4 + uniform(f"{name}.length", len(target)) * (sizes.SEQUENCE - 4)).astype(np.int64)
    tails = np.arange(sizes.SEQUENCE) >= lengths[:, None]
    tails[np.arange(len(target)) % 3 != 1] = False
    target[tails] = IGNORED


def _ignore_samples(name: str, target: np.ndarray) -> None:
    """Ignores one whole sample in ten, and EMPTY_RUN."""
    target[uniform(f"{name}.empty", len(target)) < 0.1] = IGNORED
    target[EMPTY_RUN.start : EMPTY_RUN.stop] = IGNORED


def write_class_weights(folder: Path) -> None:
    """Writes gpt2.class_weights.safetensors: a weight for each token of the vocabulary, some of them 0."""
    weights = np.arange(sizes.VOCABULARY) % 7 / 4
    save_file({"weights": weights.astype(np.float32)}, folder / "gpt2.class_weights.safetensors")
