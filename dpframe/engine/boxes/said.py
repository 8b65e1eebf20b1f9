"""What a worker process has said, as outputs or as what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.engine.boxes.lending import RaisedError, Told
from dpframe.errors import SampleError

if TYPE_CHECKING:
    from dpframe.engine.boxes.worker.frames import Frame
    from dpframe.types import HostArray


def outputs(frame: Frame, what: str) -> HostArray:
    """Outputs in an answer; any other answer is a mistake of the box."""
    if frame.header["tell"] != "outputs":
        raise problem(frame, what)
    found: HostArray = np.frombuffer(frame.content, np.dtype(frame.header["dtype"]))
    return found.reshape(frame.header["shape"])


def told_in(frame: Frame) -> Told:
    """What comes beside outputs."""
    header = frame.header
    natives = [None if shape is None else tuple(shape) for shape in header.get("natives", ())]
    words = {int(code): text for code, text in header.get("words", {}).items()}
    paces = tuple(header.get("paces", ()))
    return Told(header.get("answering", False), frozenset(natives), words, paces)


def unloaded(frame: Frame) -> str:
    """Why a mechanism could not be taken in."""
    if frame.header["tell"] == "refused":
        return str(frame.header["why"])
    return f"a worker could not load the mechanism ({frame.header.get('blame')})"


def problem(frame: Frame, what: str) -> SampleError:
    """What a box did instead of answering."""
    if frame.header["tell"] == "refused":
        return SampleError(frame.header["why"])
    return RaisedError(f"{what} raised {frame.header['blame']}")
