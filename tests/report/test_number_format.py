import math

import pytest

from dpframe.report import number_format


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0952999, "0.0953"),
        (1.0, "1.00"),
        (13.8, "13.8"),
        (9.9999, "10.0"),
        (0.99999, "1.00"),
        (123.4, "123"),
        (1234.5, "1230"),
        (0.00032, "3.2e-4"),
        (0.0, "0"),
        (-0.0, "0"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, "nan"),
        (None, "–"),
    ],
)
def test_point(value, text):
    assert number_format.point(value) == text


def test_bounds_are_rounded_away_from_overstatement():
    assert number_format.lower(0.09999) == "0.0999"
    assert number_format.upper(0.09991) == "0.100"
    assert number_format.lower(13.899) == "13.8"
    assert number_format.lower(0.1) == "0.100"


def test_a_lower_bound_is_never_infinite():
    assert number_format.lower(math.inf) == "–"


def test_spread():
    assert number_format.spread(0.19521, 0.00081) == ("0.19521", "0.00081")
    assert number_format.spread(1.0, 0.0) == ("1.00", "0")
    assert number_format.spread(math.inf, math.nan)[0] == "∞"


@pytest.mark.parametrize(
    ("value", "text"), [(0.95, "95 %"), (0.9, "90 %"), (1 - 0.05 / 252, "99.98 %"), (1.0, "100 %")]
)
def test_percent(value, text):
    assert number_format.percent(value) == text


def test_quantities():
    assert number_format.quantity(5.04e9) == "5.04 billion"
    assert number_format.quantity(12000) == "12,000"
    assert number_format.duration(41.23) == "41.2 s"
    assert number_format.duration(59.99) == "60 s"
    assert number_format.duration(200) == "3 min 20 s"
    assert number_format.duration(3725) == "1 h 02 min"
    assert number_format.size(300 * 2**20) == "300 MiB"
    assert number_format.setting(1e-5) == "1e-5"
    assert number_format.setting([1, 2.0]) == "1, 2"
    assert number_format.number("inf") == math.inf
    assert number_format.number(True) is None
