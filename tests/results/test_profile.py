"""Certified privacy profiles in answers and in records: what contradicts itself is refused."""

import pytest

from dpframe.errors import CellError
from dpframe.interfaces.estimator import Estimate
from dpframe.results.estimate_checks import checked
from dpframe.results.strict_json import profile_problem

WRONG = [
    ([(0.0, 0.5), (1.0, 0.6)], "does not fall"),
    ([(1.0, 0.5), (0.0, 0.4)], "does not fall"),
    ([(0.0, 1.5)], "has δ ≥ 1.5"),
    ([(-1.0, 0.5)], "has δ ≥ 0.5 at ε = -1.0"),
    ([(float("inf"), 0.5)], "at ε = inf"),
    ([(0.0, float("nan"))], "has δ ≥ nan"),
]


def test_a_falling_profile_is_one():
    assert profile_problem([(0.0, 0.5), (1.0, 0.5), (2.0, 0.0)]) is None
    assert profile_problem([]) is None


@pytest.mark.parametrize(("points", "said"), WRONG)
def test_anything_else_is_refused(points, said):
    assert said in profile_problem(points)
    with pytest.raises(CellError, match="estimate gave a profile_lower that"):
        checked(Estimate(1.0, 0.5, profile_lower=points), certified=True, tested=False)
