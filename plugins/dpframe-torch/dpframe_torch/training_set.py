"""The training set with canaries, and checks of the data that it is made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from dpframe_torch.records import KINDS, CanaryError, copy_of

Bools = npt.NDArray[np.bool_]
Whole = npt.NDArray[np.int64]


class TrainingSet(Dataset[Any]):  # type: ignore[misc]  # PyTorch's types are not read
    """A training set with the canaries that their coins include, in the original order."""

    def __init__(self, data: Any, inside: dict[int, Any], source: Whole) -> None:
        self.data = data
        self.inside = inside
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, place: int) -> Any:
        if not -len(self) <= place < len(self):  # IndexError ends a loop over the records
            raise IndexError(
                f"canaries.train_set has no record {place:,}, because it has {len(self):,} "
                "records: canaries replaced records and shifted indices; choose the indices of a "
                "Subset from range(len(canaries.train_set)), or pass the subset to Canaries"
            )
        source = int(self.source[place])
        # A copy, because a script that changes records in place would change only canaries that
        # are in, and their scores would show the coins.
        return self.data[source] if source >= 0 else copy_of(self.inside[-1 - source])

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and "data" in self.__dict__ and hasattr(self.data, name):
            raise AttributeError(
                f"canaries.train_set.{name}: {name} of the original data would not match the "
                "records here, because canaries replaced records and shifted indices; read "
                "it from the records"
            )
        raise AttributeError(name)


def check_data(data: Any, number: int, kind: str, records: Any, seed: Any) -> None:
    """Raise CanaryError unless canaries of this kind can be put into the data."""
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        raise CanaryError("train_set: must be a dataset with a length and indices, not a stream")
    if isinstance(data, TrainingSet):
        raise CanaryError("train_set: it has canaries already")
    if isinstance(data, DataLoader):
        raise CanaryError("train_set: it is a DataLoader; pass its dataset")
    if isinstance(data, tuple) and all(isinstance(one, Tensor | np.ndarray) for one in data):
        raise CanaryError("train_set: it is a tuple of arrays; pass TensorDataset(*tensors)")
    if kind not in KINDS:
        raise CanaryError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise CanaryError(f"number: {number!r} is not a number of canaries, at least 1")
    if records is None and number > len(data):
        raise CanaryError(f"number: {number:,} canaries, but the data have {len(data):,} records")
    if not len(data):
        raise CanaryError("train_set: it is empty")
    try:
        data[0]
    except (KeyError, TypeError) as error:
        raise CanaryError(
            f"train_set: {type(data).__name__} has no record [0] ({type(error).__name__}: "
            f"{error}); wrap it in a torch.utils.data.Dataset"
        ) from None
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise CanaryError(f"seed: {seed!r} is not a whole number of at least 0")


def check_records(data: Any, records: Any) -> None:
    """Raise CanaryError unless canaries have the form of a record of the data."""
    if not (hasattr(records, "__len__") and len(records)):
        of = "there are none" if hasattr(records, "__len__") else "they have no length; pass a list"
        raise CanaryError(f"records: {of}")
    if _form(records[0]) != _form(data[0]):
        raise CanaryError(
            f"records: a canary is {_form(records[0])}, a record of the training set is "
            f"{_form(data[0])}; they must have the same form, because batches contain both"
        )


def _form(record: Any) -> str:
    """Describe the parts of a record, which a batch needs to be equal in all records."""
    if isinstance(record, Mapping):
        return f"a mapping with {', '.join(sorted(map(str, record)))}"
    if isinstance(record, tuple | list):
        return f"a sequence of {len(record)}"
    return type(record).__name__


def with_canaries(
    data: Any, records: list[Any], members: Bools, places: Whole, replacing: bool
) -> TrainingSet:
    """Insert the included canaries, and leave out the excluded ones."""
    marks = -1 - np.arange(len(records))
    source: Whole = np.arange(len(data))
    if replacing:
        source[places] = marks
        source = np.delete(source, places[~members])
    else:
        source = np.insert(source, places[members], marks[members])
    inside = {int(i): records[i] for i in np.flatnonzero(members)}
    return TrainingSet(data, inside, source)
