"""The vote counts what a plain sum counts, at every length of a row."""

from __future__ import annotations

import jax
import numpy as np

from dpframe.builtin.fixed_attacks import MajorityVote

SHAPES = [
    *[(dim,) for dim in (1, 2, 3, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 100, 128, 255, 256, 257)],
    *[(dim,) for dim in (300, 511, 512, 513, 1100)],
    *[(4, 8), (2, 4, 8), (3, 5, 7), (1, 1)],
]


def near_ties(shape: tuple[int, ...]) -> np.ndarray:
    """Rows with every number of ones around a half, with none and with all, ones NaN or above ½."""
    rng = np.random.default_rng(3)
    dim = int(np.prod(shape))
    ones = [k for k in (0, *range(dim // 2 - 2, dim // 2 + 4), dim) if 0 <= k <= dim]
    rows = np.full((4 * len(ones), dim), 0.5, np.float32)
    for row, number in zip(rows, ones * 4, strict=True):
        row[rng.permutation(dim)[:number]] = rng.choice([np.nan, 0.6, np.inf], number)
    return rows.reshape(-1, *shape)


def test_the_vote_is_that_of_a_plain_sum_at_every_length() -> None:
    outputs = [near_ties(shape) for shape in SHAPES]
    vote = MajorityVote()
    decided = jax.jit(lambda every: [vote.score((), one) for one in every])(outputs)
    for shape, one, found in zip(SHAPES, outputs, decided, strict=True):
        wanted = 2 * np.sum(~(one.reshape(len(one), -1) <= 0.5), axis=1) > np.prod(shape)
        np.testing.assert_array_equal(found, wanted, err_msg=str(shape))
        assert wanted.any()
        assert not wanted.all()
