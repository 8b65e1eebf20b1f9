"""Device programs that draw one chunk of a traced mechanism, and score it."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpframe.common.arrays import jax
from dpframe.common.types import Array, HostArray, Tree
from dpframe.draw import trace
from dpframe.draw.compile_cache import compiled
from dpframe.draw.local_executor import plugin_classes
from dpframe.draw.streams import Stream, chunk_keys, chunks_in_words
from dpframe.draw.threefry import key_of
from dpframe.errors import WrongResultError
from dpframe.interfaces.executor import Task
from dpframe.interfaces.mechanism import Mechanism
from dpframe.interfaces.plugin_calls import call_plugin


class Origin(NamedTuple):
    """The keys and the data of draws."""

    keys: Any  # words of keys of consecutive chunks, uint32 [chunks or more, 2]; of one chunk [2]
    data: Any
    dataset: Any  # 0 or 1, an integer scalar


@compiled(static=("rows", "prng"))
def draw_chunk(mechanism: Mechanism, origin: Origin, *, rows: int, prng: str) -> Array:
    """Draw one chunk, shape [rows, *output dims], for learning and for checks."""
    outputs = mechanism.sample(key_of(origin.keys, prng), origin.data, rows)
    trace.check_outputs(outputs, rows)
    return outputs


@compiled()
def score_given(attack: Any, state: Tree, outputs: Array) -> Array:
    """Score given outputs, shape [n], for the pilot and for checks."""
    scores: Array = attack.score(state, outputs)
    trace.check_scores(scores, outputs.shape[0], attack.gives)
    return scores


class DrawTask(NamedTuple):
    """Everything that determines the draws of a traced mechanism; any process can draw from it.

    Outputs that attacks learn from are sent back whole. Outputs of a pilot are scored where they
    are drawn, and only the scores are sent: one score may stand for a model of thousands of
    numbers.
    """

    mechanisms: tuple[Any, ...]  # one per variant, leaves in the dtype of the run
    data: tuple[Tree, Tree]  # D and D′, in the precision of the run
    stream: Stream  # of the pass; `DrawChunks` names one of its streams
    prng: str
    precision: str
    rows: int  # of a chunk
    scoring: tuple[tuple[tuple[Any, Tree], ...], ...] = ()
    """By variant: attacks and their states, whose scores are wanted instead of outputs; empty if
    outputs are wanted."""


@dataclasses.dataclass(frozen=True)
class DrawChunks(Task):
    """Draw chunks in a row of one stream, variant and dataset; score them if `shared` says so.

    A program draws, or scores, one chunk per call. So a chunk has the same bits in every process,
    whichever other chunks are drawn.
    """

    shared: DrawTask
    stream: str
    variant: int
    dataset: int
    first: int
    stop: int

    def run(self, shared: DrawTask) -> list[HostArray]:
        """Return one array, the outputs; or the scores under each attack. Shape [n, …]."""

        def chunk(key: HostArray) -> list[HostArray]:
            origin = Origin(key, shared.data[self.dataset], np.int32(self.dataset))
            mechanism = shared.mechanisms[self.variant]
            draw = partial(draw_chunk, mechanism, origin, rows=shared.rows, prng=shared.prng)
            outputs = call_plugin("sample", draw)
            if not shared.scoring:
                return [np.asarray(outputs)]
            calls = [partial(score_given, *one, outputs) for one in shared.scoring[self.variant]]
            return [np.asarray(call_plugin("score", call)) for call in calls]

        with jax.enable_x64(shared.precision == "float64"):
            stream = shared.stream.of(self.stream)
            keys = chunk_keys(stream, shared.prng, self.dataset, self.first, self.stop)
            return [np.concatenate(parts) for parts in zip(*map(chunk, keys), strict=True)]

    def checked(self, arrays: Any) -> list[HostArray]:
        """Return arrays of outputs or scores, if there is one for each row."""
        scoring = self.shared.scoring
        number = len(scoring[self.variant]) if scoring else 1
        if not isinstance(arrays, list) or len(arrays) != number:
            raise WrongResultError("no list of arrays")
        rows = (self.stop - self.first) * self.shared.rows
        for array in arrays:
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise WrongResultError("something that is not an array of numbers")
            if array.shape[:1] != (rows,):
                raise WrongResultError(f"{array.shape[:1]} rows in place of {rows}")
        return arrays

    def __str__(self) -> str:
        words = chunks_in_words(self.first, self.stop, self.dataset)
        return f"{words} of the stream {self.stream}"

    @property
    def plugins(self) -> tuple[type, ...]:
        attacks = [attack for of_variant in self.shared.scoring for attack, _ in of_variant]
        return plugin_classes([*self.shared.mechanisms, *attacks])
