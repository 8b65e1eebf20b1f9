"""Sources of records: bundled digits, MNIST in a folder, or any .npz file; no downloads."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpframe_dpsgd.idx import read_idx

DIGITS = "digits"


class Table(NamedTuple):
    """Records with labels."""

    x: npt.NDArray[np.float32]
    """Features, shape [n, features]."""
    y: npt.NDArray[np.int32]
    """Labels 0 … classes − 1, shape [n]."""

    @property
    def classes(self) -> int:
        """Number of labels."""
        return int(self.y.max()) + 1


def load_table(source: str) -> Table:
    """Read a table, and cache it until its files change.

    Args:
        source: "digits" (1,797 handwritten digits of 8 × 8 pixels that come with scikit-learn), a
            folder with MNIST's training files in IDX format, or a .npz file with arrays x, of shape
            [n, …], and y, integer labels of shape [n].

    Raises:
        ValueError: there is no such file, or it does not contain such arrays.
    """
    return _loaded(source, stamp(source))


def stamp(source: str) -> tuple[Any, ...]:
    """Return a value that changes whenever the files of a table change."""
    path = Path(source)
    if source == DIGITS or not path.exists():
        return ()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)


@functools.lru_cache(maxsize=4)
def _loaded(source: str, stamp: tuple[Any, ...]) -> Table:
    if source == DIGITS:
        return _digits()
    path = Path(source)
    try:
        x, y = _folder(path) if path.is_dir() else _archive(path)
    except OSError as error:
        raise ValueError(f"data: {source}: {error.strerror or error}") from error
    return _checked(source, x, y)


def _digits() -> Table:
    # Importing scikit-learn takes more than a second, reading its file of digits a tenth.
    package = importlib.util.find_spec("sklearn")
    file = (
        Path(package.origin if package and package.origin else "").parent
        / "datasets/data/digits.csv.gz"
    )
    if file.is_file():
        rows = np.loadtxt(file, delimiter=",")
        return Table((rows[:, :-1] / 16).astype(np.float32), rows[:, -1].astype(np.int32))
    from sklearn.datasets import load_digits

    table: Any = load_digits()
    return Table((table.data / 16).astype(np.float32), table.target.astype(np.int32))


def _folder(folder: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    def find(stem: str) -> Path:
        for name in (stem, stem.replace("-idx", ".idx"), f"{stem}.gz"):
            if (folder / name).is_file():
                return folder / name
        raise ValueError(f"data: {folder}: there is no {stem} in it")

    images = read_idx(find("train-images-idx3-ubyte"))
    return images / np.float32(255), read_idx(find("train-labels-idx1-ubyte"))


def _archive(file: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return arrays["x"], arrays["y"]
    except KeyError as error:
        raise ValueError(f"data: {file}: contains no array {error}") from None


def _checked(source: str, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> Table:
    if x.ndim < 2 or y.shape != x.shape[:1] or not len(y):
        raise ValueError(
            f"data: {source}: x has shape {x.shape} and y {y.shape}, not [n, …] and [n]"
        )
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0:
        raise ValueError(f"data: {source}: labels are integers from 0")
    features = np.ascontiguousarray(x.reshape(len(x), -1), np.float32)
    if not np.isfinite(features).all():
        raise ValueError(f"data: {source}: x contains values that are not finite")
    return Table(features, y.astype(np.int32))
