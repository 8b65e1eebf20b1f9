"""All mechanisms and pairs keep their promises, cite a source and state if their claim is true."""

import dpframe_textbook
import pytest
from dpframe_textbook.pairs import QueryPattern

from dpframe.testing import check_mechanism, check_pair

MECHANISMS = dpframe_textbook.dpframe_mechanisms()


@pytest.mark.parametrize("cls", MECHANISMS, ids=lambda cls: cls.name)
def test_a_mechanism_keeps_its_promises(cls):
    check_mechanism(cls(), QueryPattern(length=LENGTHS.get(cls.name, 3), pattern="one-below"))


LENGTHS = dict.fromkeys(
    [
        *("snapping", "truncated-geometric", "laplace-parallel", "rappor", "one-time-rappor"),
        "nearest-word",
    ],
    1,
)


@pytest.mark.parametrize("cls", dpframe_textbook.dpframe_pairs(), ids=lambda cls: cls.name)
def test_a_pair_keeps_its_promises(cls):
    check_pair(cls(length=4) if cls is QueryPattern else cls())


@pytest.mark.parametrize("cls", MECHANISMS, ids=lambda cls: cls.name)
def test_a_mechanism_says_where_it_is_from_and_whether_its_claim_is_true(cls):
    assert "[" in cls.__doc__
    assert "Claim: " in cls.__doc__
    assert "true" in cls.__doc__ or "wrong" in cls.__doc__
