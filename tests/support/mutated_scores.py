"""Files of scores that went wrong: headers that lie, numbers that are none, bytes of anything.

`case(number)` is always the same file, so a failure is repeated by its number.
"""

from __future__ import annotations

import io
import random
import struct
from typing import NamedTuple

import numpy as np


class File(NamedTuple):
    """A file as `dpframe score` would be given it."""

    name: str
    content: bytes


DESCRIPTIONS = (
    "'<f8'", "'>f8'", "'<f4'", "'|b1'", "'<i8'", "'<f2'", "'<f16'", "'|O'", "'<U4'", "'|V8'",
    "'<c16'", "'<M8[s]'", "[('a', '<f8'), ('b', '<f8')]", "'<f9'", "''", "8", "None", "'f8' * 9",
    "('<f8', (2,))", "'\\x1b[31m'",
)  # fmt: skip
SHAPES = (
    "(20,)", "(20,)", "(20,)", "()", "(0,)", "(-1,)", "(1,)", "(4, 5)", "(20, 1)", "(2**40,)",
    "(9000000000000000000,)", "(10**400,)", "(20.0,)", "'20'", "(True,)", "20", "(20, 0)",
    "(4611686018427387905, 4)", "(None,)",
)  # fmt: skip
NUMBERS = (
    "0.5", "-1", "nan", "NaN", "-nan", "inf", "-Infinity", "1e999", "1e-999", "0x10", "1_000",
    "1,5", "1;2", "1\t2", "", " ", '"0.25"', "'0.25'", "true", "False", "None", "١٢", "½", "1e",
    "--1", "\x1b[31m1", "\x00", "9" * 5000, "0." + "3" * 5000, "\u202e1", "NA", "1\r2", "1\x0c2",
    "1\u20282", "score", "+0", "1d5", "[bold]1[/]",
)  # fmt: skip


def case(number: int) -> File:
    """The file of a number."""
    rng = random.Random(number)
    name, make = rng.choice((("s.npy", _npy), ("s.npy", _npy), ("s.csv", _csv), ("s.npz", _npz)))
    content = make(rng)
    for _ in range(rng.choice((0, 0, 1, 3))):
        content = _damaged(content, rng)
    if rng.random() < 0.05:
        name = rng.choice(("s.csv", "s.npy", "s.parquet", "s", "s.npy\x1b[31m", "s.CSV"))
    return File(name, content)


def _npy(rng: random.Random) -> bytes:
    """An array of 20 numbers, behind a header that may say something else."""
    if rng.random() < 0.2:
        whole = io.BytesIO()
        np.save(whole, _values(rng))
        return whole.getvalue()
    description, shape = rng.choice(DESCRIPTIONS[: rng.choice((3, 99))]), rng.choice(SHAPES)
    order = rng.choice(("False", "False", "True", "None", "'no'"))
    entries = [f"'descr': {description}", f"'fortran_order': {order}", f"'shape': {shape}"]
    if rng.random() < 0.1:
        entries = rng.choice((entries[:2], [*entries, "'more': 1"], ["(" * 300]))
    header = ("{" + ", ".join(entries) + ", }").encode() + b"\n"
    version = rng.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
    length = len(header) + rng.choice((0, 0, 0, 1, -3, 60_000, -len(header)))
    size = struct.pack("<H" if version[0] == 1 else "<I", max(0, length))
    body = _values(rng).tobytes()[: rng.choice((None, None, 160, 80, 3, 0))]
    return b"\x93NUMPY" + version + size + header + body


def _values(rng: random.Random) -> np.ndarray:
    values = np.random.default_rng(rng.randrange(99)).normal(size=20)
    values[rng.randrange(20)] = rng.choice((0.0, np.nan, np.inf, -0.0, 5e-324))
    return values if rng.random() < 0.8 else values > 0


def _csv(rng: random.Random) -> bytes:
    title = rng.choice(([], [], ["score"], ["a,b"], ["\x1b[31mred"], [""], ["true"]))
    lines = [f"{rng.gauss(0, 1):.6g}" for _ in range(rng.choice((0, 1, 20, 20)))]
    for _ in range(rng.choice((0, 1, 1, 3))):
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(NUMBERS))
    text = rng.choice(("\n", "\n", "\r\n")).join([*title, *lines])
    return text.encode(rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16")), "surrogatepass")


def _npz(rng: random.Random) -> bytes:
    whole = io.BytesIO()
    np.savez(whole, **{name: _values(rng) for name in ("a", "b")[: rng.choice((1, 2))]})
    return whole.getvalue()


def _damaged(content: bytes, rng: random.Random) -> bytes:
    at, other = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return rng.choice(
        (
            content[:at],
            content[:at] + content[other:],
            content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :],
            content[:other] + content[at:],
            content[:at] + bytes(other - at) + content[other:],
        )
    )
