"""Score and count the outputs of black boxes: in NumPy, or in JAX for code that needs it."""

from typing import Any

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.types import HostArray, Tree
from dpframe.draw import trace
from dpframe.draw.streams import LEARNER, Stream, words_of
from dpframe.draw.threefry import base_key
from dpframe.interfaces.attack import Attack, Target
from dpframe.interfaces.plugin_calls import arrays, call_plugin, check_updated
from dpframe.interfaces.statistic import Statistic, add_scores

FLOAT = np.dtype(np.float64)  # type in which they are scored
LEAST_ROWS = 64  # rows of a compiled program, at least: few sizes compile fast


def scores_of(attack: Attack, state: Tree, outputs: HostArray) -> HostArray:
    """Score outputs as the attack sees them, shape [n, …]; raise CellError if it fails."""
    leaves, scored = trace.unstacked(attack, FLOAT), outputs
    if attack.portable:
        with np.errstate(all="ignore"):
            scores = np.asarray(call_plugin("score", leaves.score, state, outputs))
    else:
        from dpframe.draw.programs import score_given

        rows = max(LEAST_ROWS, 1 << max(0, len(outputs) - 1).bit_length())
        scored = np.resize(outputs, (rows, *outputs.shape[1:]))
        with jax.enable_x64(True):
            scores = np.asarray(call_plugin("score", score_given, leaves, state, scored))
    trace.check_scores(scores, len(scored), attack.gives)
    return scores[: len(outputs)]


def counts_with(
    statistic: Statistic, layout: Tree, counts: Tree, dataset: int, scores: HostArray
) -> Tree:
    """Return counts with some more scores; raise CellError if the statistic fails."""
    updated: Any = call_plugin("counting", add_scores, statistic, layout, counts, dataset, scores)
    updated = trees.map(np.asarray, updated)
    check_updated(counts, updated)
    return updated


def fitted(attack: Attack, key: Any, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
    """Return the state that an attack learns; raise CellError if it fails."""
    return arrays("fit", call_plugin("fit", lambda: attack.fit(key, target, train)))


def learned_on_host(
    attack: Attack, stream: Stream, prng: str, target: Target, train: tuple[HostArray, HostArray]
) -> Tree:
    """Return the state that an attack learns from outputs of a black box."""
    if attack.portable:
        return fitted(attack, words_of(stream.of(LEARNER), 8), target, train)
    with jax.enable_x64(True):
        return fitted(attack, base_key(stream.of(LEARNER), prng), target, train)
