"""Addresses of draws: stable, distinct, and free of what must not matter."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from dpframe.draw.streams import (
    GENERATORS,
    Stream,
    chunk_keys,
    draw_group,
    host_generator,
)
from dpframe.draw.threefry import base_key, key_of
from dpframe.interfaces import registry
from dpframe.spec import load_audit


def cell(epsilon: float = 1.0, **changes: object):
    document = {
        "schema": 1,
        "audit": {"name": "a", "trials": 10},
        "pair": {"use": "zeros-ones", "params": {"dim": changes.pop("dim", 1)}},
        "mechanism": [{"use": "dptext", "params": {"epsilon": epsilon, **changes}, "label": "x"}],
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": "precision"}],
    }
    return load_audit(document, registry=registry.load()).cells[0]


def chunk_key(base, chunk, dataset):
    """Fold chunk and dataset into the key of a stream, as JAX would."""
    return jax.random.fold_in(jax.random.fold_in(base, chunk), dataset)


SETTINGS = {"precision": "float32", "prng": "threefry2x32", "rows": 64, "data": ""}


def test_traced_floats_are_not_part_of_the_address() -> None:
    assert draw_group(cell(1.0), **SETTINGS) == draw_group(cell(2.0, sensitivity=3.0), **SETTINGS)


def test_everything_that_determines_draws_is() -> None:
    groups = [
        draw_group(cell(), **SETTINGS),
        draw_group(cell(nan="keep"), **SETTINGS),
        draw_group(cell(dim=2), **SETTINGS),
        *(
            draw_group(cell(), **{**SETTINGS, name: value})
            for name, value in {"precision": "float64", "prng": "rbg", "rows": 128}.items()
        ),
    ]
    assert len(set(groups)) == len(groups)


def test_the_address_never_changes_by_accident() -> None:
    """A stored count belongs to an address for good; a change here needs a new SCHEME."""
    assert draw_group(cell(), **SETTINGS) == "c4acd60c0fa79ef0"
    key = base_key(Stream(1, "0123456789abcdef", 0, "eval"), "threefry2x32")
    assert jax.random.key_data(key).tolist() == [3562271503, 2744234737]


def test_addresses_give_distinct_keys() -> None:
    seen = set()
    for seed, group, repeat, stream in itertools.product(
        (0, 1, 2**40), ("a", "b"), (0, 1), ("fit", "pilot", "eval")
    ):
        base = base_key(Stream(seed, group, repeat, stream), "threefry2x32")
        for chunk, dataset in itertools.product((0, 1, 1000), (0, 1)):
            key = chunk_key(base, np.int32(chunk), np.int32(dataset))
            seen.add(tuple(jax.random.key_data(key).tolist()))
    assert len(seen) == 3 * 2 * 2 * 3 * 3 * 2


@pytest.mark.parametrize("prng", GENERATORS)
def test_keys_made_by_numpy_are_those_that_jax_folds(prng: str) -> None:
    stream = Stream(3, "0123456789abcdef", 1, "eval")
    base, first = base_key(stream, prng), 2**31 - 9
    for dataset in (0, 1):
        found = chunk_keys(stream, prng, dataset, first, first + 8)
        wanted = jax.vmap(lambda chunk, d=dataset: chunk_key(base, chunk, np.int32(d)))(
            np.arange(first, first + 8, dtype=np.int32)
        )
        np.testing.assert_array_equal(found, jax.random.key_data(wanted))
        assert (key_of(found[5], prng) == wanted[5]).all()
    assert chunk_keys(stream, prng, 0, 7, 7).shape == (0, 2)


def test_host_generators_are_distinct_and_repeatable() -> None:
    addresses = list(itertools.product((0, 1), ("fit", "eval"), (0, 1, 2), (0, 1)))
    first = {
        a: host_generator(Stream(a[0], "g", 0, a[1]), a[2], a[3]).integers(2**63) for a in addresses
    }
    again = {
        a: host_generator(Stream(a[0], "g", 0, a[1]), a[2], a[3]).integers(2**63) for a in addresses
    }
    assert first == again
    assert len(set(first.values())) == len(addresses)
