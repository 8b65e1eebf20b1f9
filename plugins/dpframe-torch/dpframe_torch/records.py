"""Training records: their fields, the canaries made from them, and keys that identify them."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dpframe import Doubt
from dpframe.plugins import DpframeError

__all__ = ["CanaryError", "Doubt", "Kind"]


class CanaryError(DpframeError):
    """The canaries, or the training run that they belong to, cannot be used in this state."""


Kind = Literal["mislabelled", "blank", "as-they-are", "random-gradient", "text"]
KINDS: tuple[Kind, ...] = ("mislabelled", "blank", "as-they-are", "random-gradient", "text")
REPLACING = ("mislabelled", "blank", "as-they-are")
"""Kinds whose canaries replace records; canaries of other kinds are added."""

LABELS = ("labels", "label", "target", "y")
INPUTS = ("input_ids", "pixel_values", "image", "inputs", "input_values", "x")
MARKS = 16  # coordinates that distinguish blank inputs
LOOKED_AT = 1_000  # records from which the classes, or the tokens, are inferred
TRIES = 100  # to draw whole numbers that no other canary has


class Fields(NamedTuple):
    """Keys of a record's input and label."""

    inputs: Any
    label: Any  # None if records have none


def fields_of(record: Any) -> Fields:
    """Return the keys of input and label in a record, which is a tuple, a list or a mapping.

    Raises:
        CanaryError: it is something else.
    """
    if isinstance(record, Mapping):
        label = next((key for key in LABELS if key in record), None)
        known = [key for key in INPUTS if key in record]
        others = [key for key in record if key != label]
        if known or others:
            return Fields((known or others)[0], label)
    elif isinstance(record, tuple | list) and record:
        return Fields(0, 1 if len(record) > 1 else None)
    raise CanaryError(
        f"a record of the training set is {type(record).__name__}; it must be (input, label), "
        "or a mapping with an input and a label"
    )


def _changed(record: Any, changes: Mapping[Any, Any]) -> Any:
    """Return a copy of a record with some of its fields changed."""
    if isinstance(record, Mapping):
        return {**record, **changes}
    return tuple(changes.get(place, value) for place, value in enumerate(record))


def _like(value: int, original: Any) -> Any:
    """Return a label of the same type as another one."""
    if torch.is_tensor(original):
        return torch.full_like(original, value)
    if isinstance(original, np.ndarray | np.generic):
        return np.full_like(original, value)[()]
    return value


def _label(record: Any, fields: Fields, kind: str) -> int:
    if fields.label is None:
        raise CanaryError(f"canaries of the kind {kind!r} need records with a label")
    label = np.asarray(record[fields.label])
    if label.size != 1 or label.dtype.kind not in "iub":
        raise CanaryError(
            f"canaries of the kind {kind!r} need labels that are one whole number each; this one "
            f"has shape {label.shape} and type {label.dtype}"
        )
    if label < 0:
        raise CanaryError(f"canaries of the kind {kind!r} need labels from 0; one is {label}")
    return int(label.reshape(()))


def inputs_of(records: Sequence[Any], fields: Fields) -> list[Tensor]:
    """Return the inputs of records as tensors.

    Raises:
        CanaryError: an input is not a tensor, an array or a list of numbers.
    """
    try:
        return [torch.as_tensor(record[fields.inputs]) for record in records]
    except (TypeError, ValueError, RuntimeError, KeyError, IndexError) as error:
        raise CanaryError(
            f"the inputs of records must be tensors, arrays or lists of numbers to be recognised "
            f"in batches: {error}; put the transform, or the tokenizer, into the training set"
        ) from None


def number_of_classes(data: Any, fields: Fields, kind: str) -> int:
    """Infer the number of classes from the attribute `classes`, or from the first labels."""
    if named := getattr(data, "classes", None):
        return len(named)
    some = [_label(data[i], fields, kind) for i in range(min(len(data), LOOKED_AT))]
    return max(some) + 1


class Making(NamedTuple):
    """The data that canaries are made from, and the parameters of their kind."""

    data: Any
    rng: np.random.Generator
    classes: int | None
    vocabulary: Any  # token ids, their number, or a tokenizer
    length: int | None


def make(kind: Kind, of: Making, places: Sequence[int] | npt.NDArray[np.int64]) -> list[Any]:
    """Make canaries.

    Args:
        kind: of the canaries.
        of: the data.
        places: indices of the records that canaries are made from.

    Returns:
        One record for each place, in the same form as the records of the data.

    Raises:
        CanaryError: the data do not fit the kind.
    """
    makers: dict[str, Callable[[Making, Any, Fields], Any]] = {
        "mislabelled": _mislabelled,
        "blank": _blank,
        "as-they-are": lambda of, record, fields: record,
        "random-gradient": _placeholder,
    }
    records = [of.data[int(place)] for place in places]
    fields = fields_of(records[0])
    whole = _is_whole(records[0][fields.inputs])
    if kind == "text" and not whole:
        raise CanaryError("canaries of the kind 'text' need records of token ids")
    of_tokens = kind == "text" or (kind == "random-gradient" and whole)
    of_classes = kind in ("mislabelled", "blank")
    used = {"classes": of_classes, "vocabulary": of_tokens, "length": of_tokens}
    for name in (name for name in used if getattr(of, name) is not None and not used[name]):
        with_such = " of such inputs" if kind == "random-gradient" else ""
        raise CanaryError(f"{name}: canaries of the kind {kind!r}{with_such} do not use it")
    if of_tokens:
        return _whole(kind, of, records, fields)
    if of_classes and of.classes is None:
        of = of._replace(classes=number_of_classes(of.data, fields, kind))
    return [makers[kind](of, record, fields) for record in records]


def _mislabelled(of: Making, record: Any, fields: Fields) -> Any:
    label = _label(record, fields, "mislabelled")
    if (of.classes or 0) < 2:
        raise CanaryError("mislabelled canaries need at least two classes; pass classes=")
    wrong = (label + int(of.rng.integers(1, of.classes))) % (of.classes or 1)
    return _changed(record, {fields.label: _like(wrong, record[fields.label])})


def _blank(of: Making, record: Any, fields: Fields) -> Any:
    """Return an input of zeros except for a unique random mark, with a random label."""
    inputs = _floats(record[fields.inputs], "blank")
    blank = torch.zeros_like(inputs)
    chosen = of.rng.choice(blank.numel(), min(MARKS, blank.numel()), replace=False)
    mark = inputs.abs().max().clamp(min=1e-3)
    if blank.numel() <= 2 * MARKS:  # too few coordinates for different sets of them
        mark = mark * torch.from_numpy(of.rng.uniform(0.1, 1, len(chosen))).to(blank.dtype)
    blank.view(-1)[torch.from_numpy(chosen)] = mark
    label = int(of.rng.integers(of.classes or 1))
    changes = {fields.inputs: _as(blank, record[fields.inputs])}
    if fields.label is not None:
        changes[fields.label] = _like(label, record[fields.label])
    return _changed(record, changes)


def _placeholder(of: Making, record: Any, fields: Fields) -> Any:
    """Return a record of random numbers; its gradient is replaced, so only its slot counts."""
    inputs = _floats(record[fields.inputs], "random-gradient")
    noise = torch.from_numpy(of.rng.standard_normal(inputs.numel())).reshape(inputs.shape)
    return _changed(record, {fields.inputs: _as(noise.to(inputs.dtype), record[fields.inputs])})


def _whole(kind: str, of: Making, records: list[Any], fields: Fields) -> list[Any]:
    """Return records with random whole numbers as inputs, no two of them equal.

    Token sequences consist of tokens from the vocabulary. Inputs of one shape that need not be
    sequences (kind "random-gradient") get each number from the same place of a random record, so
    every number occurs there in the data.
    """
    shapes = {np.shape(record[fields.inputs]) for record in records}
    if of.length is not None and (not isinstance(of.length, int) or of.length < 1):
        raise CanaryError(f"length: {of.length!r} is not a number of tokens, at least 1")
    columns = kind != "text" and (of.vocabulary, of.length) == (None, None) and len(shapes) == 1
    if columns:
        several = np.stack([np.asarray(record[fields.inputs]) for record in records])
        rows, shape = several.reshape(len(several), -1), several.shape[1:]
    elif any(len(shape) != 1 for shape in shapes):
        raise CanaryError(
            f"canaries of the kind {kind!r} need token sequences, not inputs of shape "
            f"{next(shape for shape in shapes if len(shape) != 1)}"
        )
    else:
        vocabulary = vocabulary_of(of.vocabulary, of.data, fields)

    def draw(record: Any) -> Any:
        if columns:
            chosen = of.rng.integers(len(rows), size=rows.shape[1])
            return rows[chosen, np.arange(rows.shape[1])].reshape(shape)
        return of.rng.choice(vocabulary, size=of.length or len(record[fields.inputs]))

    made, taken = [], set()
    for record in records:
        for _ in range(TRIES):
            numbers = draw(record)
            if (key := (numbers.shape, numbers.tobytes())) not in taken:
                break
        else:
            raise CanaryError(
                f"{len(records):,} canaries of the kind {kind!r} would not all differ: random "
                f"inputs of shape {numbers.shape} repeat; choose fewer canaries, a larger "
                "vocabulary= or a larger length="
            )
        taken.add(key)
        made.append(_with_whole(record, numbers, fields))
    return made


def _with_whole(record: Any, numbers: npt.NDArray[Any], fields: Fields) -> Any:
    """Return a record with other whole numbers; labels of every token change with them."""
    changes: dict[Any, Any] = {}
    shape = np.shape(record[fields.inputs])
    for key in record if isinstance(record, Mapping) else range(len(record)):
        value = record[key]
        if key == fields.inputs:
            changes[key] = _as(torch.from_numpy(numbers), value)
        elif key == "attention_mask":
            changes[key] = _as(torch.ones(numbers.shape, dtype=torch.int64), value)
        elif len(shape) == 1 and np.shape(value) == shape:  # or ids without meaning here
            same = numbers if key == fields.label else np.zeros_like(numbers)
            changes[key] = _as(torch.from_numpy(same), value)
    return _changed(record, changes)


def vocabulary_of(given: Any, data: Any, fields: Fields) -> npt.NDArray[np.int64]:
    """Return token ids, without those that a tokenizer or the data use for padding.

    Args:
        given: ids, their number, a tokenizer as of Hugging Face, or None to read the data.
        data: token sequences.
        fields: of their records.

    Raises:
        CanaryError: these are not at least two token ids.
    """
    if given is None:
        ids = _tokens_in_use(data, fields)
    elif hasattr(given, "all_special_ids"):
        ids = np.setdiff1d(np.arange(len(given)), np.asarray(given.all_special_ids, np.int64))
    elif isinstance(given, int) and not isinstance(given, bool):
        ids = np.arange(max(0, given))
    else:
        ids = np.unique(np.asarray(given))
    if ids.dtype.kind not in "iu" or ids.ndim != 1 or len(ids) < 2 or ids[0] < 0:
        of = "the data have no" if given is None else "vocabulary:"
        what = "" if given is None else f" {str(given)[:60]} gives no"
        raise CanaryError(
            f"{of}{what} two different token ids, which random token sequences need; pass the "
            "number of tokens, their ids, or the tokenizer as vocabulary="
        )
    return np.asarray(ids, np.int64)


def _tokens_in_use(data: Any, fields: Fields) -> Any:
    """Return the tokens of the first records, without masked ones."""
    tokens_of = [np.zeros(0, np.int64)]
    for place in range(min(len(data), LOOKED_AT)):
        record = data[place]
        tokens = np.asarray(record[fields.inputs])
        mask = record.get("attention_mask") if isinstance(record, Mapping) else None
        if mask is not None and np.shape(mask) == tokens.shape:
            tokens = tokens[np.asarray(mask) != 0]
        tokens_of.append(np.unique(tokens))
    return np.unique(np.concatenate(tokens_of))


def check_tokens(model: torch.nn.Module, kind: str, records: Sequence[Any], fields: Fields) -> None:
    """Raise CanaryError if a text canary has a token that the model's embedding lacks."""
    if kind != "text":
        return
    try:
        tables = [model.get_input_embeddings()]  # of Hugging Face
    except (AttributeError, NotImplementedError, TypeError):
        tables = [one for one in model.modules() if isinstance(one, torch.nn.Embedding)]
    size = max((int(getattr(one, "num_embeddings", 0)) for one in tables), default=0)
    highest = max(int(np.max(np.asarray(one[fields.inputs]))) for one in records)
    if size and highest >= size:
        raise CanaryError(
            f"vocabulary: a canary has the token {highest:,}, but the model's embedding has "
            f"{size:,} tokens, from 0; pass vocabulary={size}, or the tokenizer, to Canaries, and "
            "delete the file of this run"
        )


def _is_whole(inputs: Any) -> bool:
    """True if an input consists of whole numbers."""
    try:
        return np.asarray(inputs).dtype.kind in "iub"
    except (TypeError, ValueError, RuntimeError):
        return False


def _floats(inputs: Any, kind: str) -> Tensor:
    try:
        tensor = torch.as_tensor(inputs)
    except (TypeError, ValueError, RuntimeError):
        raise CanaryError(
            f"canaries of the kind {kind!r} need inputs that are tensors or arrays, not "
            f"{type(inputs).__name__}; put the transform into the training set"
        ) from None
    return tensor.to(torch.get_default_dtype()) if not tensor.is_floating_point() else tensor


def _as(tensor: Tensor, original: Any) -> Any:
    """Return a tensor in the type of another input."""
    if torch.is_tensor(original):
        return tensor.to(original.dtype)
    if isinstance(original, np.ndarray):
        return tensor.numpy().astype(original.dtype)
    return tensor.tolist()


# Keys by which records are recognised in the inputs of a model.

MOST_LOOKED_AT = 4_096  # coordinates of an input


@functools.cache
def _weights(size: int) -> Tensor:
    rng = np.random.default_rng(size)
    return torch.from_numpy(rng.integers(1, 2**62, size) | 1)


@functools.cache
def _token_weights() -> Tensor:
    return _weights(MOST_LOOKED_AT)


def keys_of(inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return a key for every row of a batch, shape [batch]; rows with equal bits have equal keys.

    Sums of integers do not depend on their order, so a key does not depend on the batch or the
    device. Masked tokens are ignored.

    Args:
        inputs: shape [batch, …].
        mask: shape [batch, length], 0 for padding; only for tokens.
    """
    rows = inputs.detach().reshape(len(inputs), -1) if len(inputs) else inputs.reshape(0, 1)
    if rows.is_floating_point():
        if rows.shape[1] > MOST_LOOKED_AT:
            rows = rows[:, :: -(-rows.shape[1] // MOST_LOOKED_AT)]
        # 0.0 and −0.0 are the same input.
        rows = (rows.float() + 0.0).contiguous()
        if rows.shape[1] % 2:
            rows = torch.nn.functional.pad(rows, (0, 1))
        whole = rows.view(torch.int64)  # two numbers at a time
        weights = _weights(whole.shape[1]).to(rows.device)
    else:
        whole = rows[:, :MOST_LOOKED_AT].long() + 1
        if mask is not None:
            whole = whole * mask.reshape(len(mask), -1)[:, :MOST_LOOKED_AT].long()
        weights = _token_weights()[: whole.shape[1]].to(rows.device)
    return (whole * weights).sum(1)


def copy_of(record: Any) -> Any:
    """Return a copy of a record that shares no memory with it."""
    if type(record) is Tensor:  # many times faster than deepcopy
        return record.detach().clone()
    if type(record) is dict:
        return {key: copy_of(value) for key, value in record.items()}
    if type(record) in (tuple, list):
        return type(record)(copy_of(value) for value in record)
    return copy.deepcopy(record)


def digest_of(records: Sequence[Any]) -> str:
    """Return a hash of records."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Mapping):
            for key in value:
                digest.update(str(key).encode())
                add(value[key])
        elif isinstance(value, tuple | list) and not all(isinstance(v, int | float) for v in value):
            for one in value:
                add(one)
        elif torch.is_tensor(value):
            digest.update(str(tuple(value.shape)).encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        else:
            array = np.asarray(value)
            shown = repr(value).encode() if array.dtype.hasobject else array.tobytes()
            digest.update(str(array.shape).encode() + shown)

    for record in records:
        add(record)
    return "sha256:" + digest.hexdigest()
