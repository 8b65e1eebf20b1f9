"""Planted mistakes are found on their lines, and correct functions cause no findings."""

from __future__ import annotations

import functools
import math
import random
import re
import secrets
from pathlib import Path

import numpy as np
import pytest
from dpframe_trace import noise, primitives, trace, trace_table
from dpframe_trace.commands import _read, app
from typer.testing import CliRunner

from dpframe import DpframeError

D0 = np.array([0.0, 0.4, 0.3])
D1 = np.array([1.0, 0.4, 0.3])
FEWER = D0[:2]
RNG = np.random.default_rng()
PAGE = Path(__file__).parents[3] / "docs/how-to/trace-noise.md"


def clipped(data):
    return float(np.clip(data, 0, 1).sum())


def bins(data):
    return np.array([(data < 0.5).sum(), (data >= 0.5).sum()])


def divided_by_n(rng, data):
    return (clipped(data) + rng.laplace()) / len(data)


def classes_from_data(rng, data):
    return [float((data == value).sum() + rng.laplace()) for value in np.unique(data)]


def not_clipped(rng, data):
    return float(data.sum() + rng.laplace(scale=1.0))


def half_the_scale(rng, data):
    return clipped(data) + rng.laplace(scale=0.5)


def spent_twice(rng, data):
    return clipped(data) + rng.laplace(), clipped(data) + rng.laplace()


def sensitivity_from_data(rng, data):
    return clipped(data) + rng.laplace(scale=data.max() - data.min())


def noise_on_one_path(rng, data):
    total = clipped(data)
    return total + rng.laplace() if total > 1 else 0.0


def noise_not_added(rng, data):
    rng.laplace()
    return clipped(data)


def fixed_seed(data):
    return clipped(data) + np.random.default_rng(0).laplace()


def fixed_old_seed(data):
    np.random.seed(1)
    return clipped(data) + np.random.laplace()


def fixed_seed_of_random(data):
    random.seed(2)
    return clipped(data) + random.gauss(0, 100)


def overflow(rng, data):
    ones = np.ceil(data).astype(np.int8)
    return int(np.sum(ones, dtype=np.int8)) + rng.laplace()


def reused(rng, data):
    draw = rng.laplace(scale=2.0)
    return clipped(data) + draw, len(data) + draw


def one_draw_for_all(rng, data):
    return bins(data) + rng.laplace(scale=2.0)


def unnoised_detail(rng, data):
    return {"sum": clipped(data) + rng.laplace(), "largest": float(data.max())}


def noise_by_classes(rng, data):
    rng.uniform(size=0)
    rng.choice(1, p=[1.0])
    return rng.laplace(scale=9.0, size=len(np.unique(data))).sum()


FULL = np.ones(127), np.ones(128)
WRONG = {
    divided_by_n: ("output", D0, FEWER),
    classes_from_data: ("path", D0, FEWER),
    not_clipped: ("budget", D0, 9 * D1),
    half_the_scale: ("budget", D0, D1),
    spent_twice: ("budget", D0, D1),
    sensitivity_from_data: ("scale", D0, D1),
    noise_on_one_path: ("path", D0, D1),
    noise_not_added: ("output", D0, D1),
    fixed_seed: ("seed", D0, D1),
    fixed_old_seed: ("seed", D0, D1),
    fixed_seed_of_random: ("seed", D0, D1),
    overflow: ("budget", *FULL),
    reused: ("reused", D0, D1),
    one_draw_for_all: ("reused", D0, D1),
    unnoised_detail: ("output", D0, D1),
    noise_by_classes: ("path", D0, FEWER),
}


@pytest.mark.parametrize("function", WRONG, ids=lambda function: function.__name__)
def test_a_planted_mistake_is_found(function):
    kind, d0, d1 = WRONG[function]
    found = trace(function, d0, d1, epsilon=1.0)
    finding = next(finding for finding in found.findings if finding.kind == kind)
    first = function.__code__.co_firstlineno
    if finding.line:
        assert finding.file == __file__
        assert first < finding.line <= first + 4
    assert found.exit_code == 1
    assert "private" not in str(found)


def reused_on_two_lines(rng, data):
    draw = rng.laplace(scale=2.0)
    total = clipped(data) + draw
    return total, len(data) + draw


def spent_on_two_lines(rng, data):
    total = clipped(data) + rng.laplace()
    return total, bins(data)[0] + rng.laplace()


@pytest.mark.parametrize(("function", "first"), [(reused_on_two_lines, 2), (spent_on_two_lines, 1)])
def test_a_finding_names_its_lines(function, first):
    start = function.__code__.co_firstlineno
    (finding,) = trace(function, D0, D1, epsilon=1.5).findings
    assert all(str(line) in finding.text for line in (start + first, start + first + 1))


def test_nan_is_found():
    found = trace(not_clipped, D0, np.array([np.nan, 0.4, 0.3]), epsilon=1.0)
    assert [finding.kind for finding in found.findings] == ["not-a-number"]
    assert found.epsilon == math.inf


def right(rng, data):
    return clipped(data) + rng.laplace(scale=1.0)


def right_location(rng, data):
    return rng.laplace(clipped(data), 1.0)


def right_legacy(data):
    return clipped(data) + 2.0 * np.random.laplace(0, 0.5)


def right_module_generator(data):
    return clipped(data) - RNG.laplace(0.0, 1.0)


def right_standard(rng, data):
    return math.floor(clipped(data) + 0.5) + rng.normal(0, 4.0)


def right_library(data):
    return clipped(data) + random.SystemRandom().gauss(0.0, 4.0)


def right_histogram(rng, data):
    return bins(data) + rng.laplace(scale=2.0, size=2)


def right_list(rng, data):
    return bins(data) + np.array([rng.laplace(scale=2.0) for _ in range(2)])


def right_in_place(rng, data):
    draws = rng.laplace(size=2)
    draws *= 2.0
    draws += bins(data)
    return draws


def right_adaptive(rng, data):
    first = bins(data)[0] + rng.laplace(scale=2.0)
    return [first, *(0.0 * clipped(data) + rng.laplace() for _ in range(int(abs(first)) + 1))]


def right_choice(rng, data):
    weights = np.exp(bins(data) / 4)
    return rng.choice(["low", "high"], p=weights / weights.sum())


def laplace_of_uniform(data):
    u = random.random() - 0.5
    return clipped(data) - math.copysign(math.log(1 - 2 * abs(u)), u)


def laplace_in_place(rng, data):
    draws = rng.uniform(size=2)
    for at in range(2):
        u = draws[at]
        draws[at] = np.log(2 * u) if u < 0.5 else -np.log(2 - 2 * u)
    return bins(data) + 2 * draws


RIGHT = [
    (right, 1.0),
    (right_location, 1.0),
    (right_legacy, 1.0),
    (right_module_generator, 1.0),
    (right_histogram, 1.0),
    (right_list, 1.0),
    (right_in_place, 1.0),
    (laplace_of_uniform, 1.0),
    (laplace_in_place, 1.0),
    (right_adaptive, 0.5),
    (right_choice, 0.5),
]


@pytest.mark.parametrize(("function", "loss"), RIGHT, ids=lambda x: getattr(x, "__name__", ""))
def test_a_right_function_is_not_accused(function, loss):
    found = trace(function, D0, D1, epsilon=1.0)
    assert (found.findings, found.unknown) == ([], [])
    assert found.epsilon <= loss + 1e-9
    assert function is right_choice or found.epsilon == pytest.approx(loss)
    assert "says nothing about other data" in str(found)


@pytest.mark.parametrize("function", [right_standard, right_library])
def test_normal_noise_has_the_loss_of_its_mu(function):
    from dpframe import GaussianDP

    found = trace(function, D0, D1, epsilon=2.0, delta=1e-5)
    assert found.findings == []
    assert found.epsilon == pytest.approx(GaussianDP(0.25).epsilon_at(1e-5))
    assert trace(function, D0, D1, epsilon=2.0).findings[0].kind == "budget"  # none at δ = 0


def randomised_response(data):
    truth = data[0] > 0.5
    return truth if secrets.randbelow(4) else not truth


def biased_coin(rng, data):
    return bool(data[0] > 0.5) ^ bool(rng.random() < 0.001)


def rare_coin(rng, data):
    return bool(data[0] > 0.5) ^ bool(rng.integers(20) == 0)


def normal_of_uniforms(data):
    radius = math.sqrt(-2 * math.log(1 - random.random()))
    return clipped(data) + 9 * radius * math.cos(2 * math.pi * random.random())


def overwritten(rng, data):
    draws = rng.laplace(size=2)
    first = draws[0] + 1.0
    draws[0] = rng.laplace()
    return first, clipped(data) + draws[0]


def sparse_vector(rng, data):
    threshold = 0.5 + rng.laplace(scale=2.0)
    return [bool(value + rng.laplace(scale=4.0) >= threshold) for value in data]


def largest(rng, data):
    return int(np.argmax(bins(data) + rng.gumbel(scale=4.0, size=2)))


@pytest.mark.parametrize(
    "function",
    [
        randomised_response,
        biased_coin,
        normal_of_uniforms,
        overwritten,
        sparse_vector,
        largest,
    ],
)
def test_noise_that_is_not_followed_is_no_reason_to_accuse(function):
    """Nor is a bound on the loss, if the claim is smaller than the bound."""
    assert trace(function, D0, D1, epsilon=0.2).findings == []


@pytest.mark.parametrize("claim", [3.0, 8.0])
def test_a_rare_outcome_may_cover_a_difference(claim):
    """The coin comes out otherwise in one run of 20, so ε is 2.94; 8 runs would mostly miss it."""
    assert trace(rare_coin, D0, D1, epsilon=claim).findings == []


@pytest.mark.parametrize("function", [randomised_response, biased_coin])
def test_a_difference_that_cannot_be_judged_is_listed(function):
    found = trace(function, D0, D1, epsilon=1.0)
    assert found.exit_code == 3
    assert "CANNOT TELL" in str(found)


def test_an_unknown_loss_is_not_compared_with_the_claim():
    found = trace(normal_of_uniforms, D0, D1, epsilon=1.0)
    assert math.isnan(found.epsilon)
    assert found.exit_code == 3
    assert any("may exceed the claim" in text for text in found.unknown)
    assert trace(normal_of_uniforms, D0, D1).exit_code == 0


def test_randomness_from_elsewhere_is_noticed():
    import os

    found = trace(lambda data: clipped(data) + os.urandom(8)[0], D0, D1, epsilon=1.0)
    assert found.findings == []
    assert any("does not record" in text for text in found.unknown)


def test_a_negative_scale_raises_as_in_numpy():
    def fit(rng, data):
        return clipped(data) + rng.laplace(scale=len(data) - 1000)

    found = trace(fit, D0, D1, epsilon=1.0)
    assert found.exit_code == 3
    assert "raises ValueError" in found.unknown[0]


def test_a_function_that_raises_on_both_is_no_result():
    found = trace(lambda data: data["no"], D0, D1, epsilon=1.0)
    assert found.exit_code == 3
    assert "nothing was compared" in found.unknown[0]


def test_an_exception_on_one_side_is_found():
    def refuses(rng, data):
        if data.max() >= 1:
            raise ValueError("too large")
        return clipped(data) + rng.laplace()

    kinds = {finding.kind for finding in trace(refuses, D0, D1, epsilon=1.0).findings}
    assert "path" in kinds


def test_each_line_says_scale_sensitivity_and_loss():
    (line,) = trace(right_histogram, D0, D1).lines
    assert (line.name, line.draws, line.scales) == ("laplace", 2, (2.0, 2.0))
    assert (line.sensitivity, line.epsilon) == (2.0, 1.0)
    assert line.code == "return bins(data) + rng.laplace(scale=2.0, size=2)"


def test_nothing_is_left_replaced():
    before = np.random.laplace, random.random, np.random.default_rng, np.array, RNG
    trace(right_module_generator, D0, D1)
    assert (np.random.laplace, random.random, np.random.default_rng, np.array, RNG) == before
    assert primitives.tape() is None
    assert type(RNG) is np.random.Generator


def test_arithmetic_is_that_of_numbers():
    tape = noise.Tape(0)
    with primitives.replaced(None), primitives.recording(tape):
        draw = np.random.default_rng().laplace(scale=2.0)
        several = np.random.default_rng().normal(size=(2, 3))
    value = noise.plain(draw)
    assert isinstance(draw, float)
    assert [draw * 3, -draw, draw / 4, 1 + draw, draw - 1, 1 - draw, abs(draw), draw**2] == [
        value * 3, -value, value / 4, 1 + value, value - 1, 1 - value, abs(value), value**2
    ]  # fmt: skip
    assert np.array_equal(several.T + 0, noise.plain(several).T)
    assert np.array_equal(several[:, 1] * 2, noise.plain(several)[:, 1] * 2)
    assert np.array_equal(several.reshape(3, 2) + 1, noise.plain(several).reshape(3, 2) + 1)
    assert type(several.sum() + 1) is not noise.FloatNoise


def test_a_table_tries_many_neighbours():
    schema = [{"low": 0, "high": 1}]
    found = trace_table(right, D0, adjacency="replace", schema=schema, epsilon=1.0)
    assert [finding.kind for finding in found.findings] == ["not-a-number"]
    assert "NaN" in found.findings[0].pair
    inside = trace_table(right, D0, adjacency="replace", schema=schema, epsilon=1.0, beyond=False)
    assert (inside.findings, inside.pairs > 10) == ([], True)
    assert inside.epsilon == pytest.approx(1.0)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traced_library.py").write_text(
        "import numpy as np\nrng = np.random.default_rng(7)\n\n\ndef total(data):\n"
        "    return float(np.clip(data, 0, 1).sum() + rng.laplace(scale=1.0))\n"
    )
    (tmp_path / "d.csv").write_text("x\n0.1\n0.5\n")
    np.save(tmp_path / "other.npy", np.array([1.0, 0.5]))
    call = functools.partial(CliRunner().invoke, app)
    done = call(["traced_library.total", "--data", "d.csv", "--neighbour", "other.npy"])
    assert done.exit_code == 1, done.output
    assert "traced_library.py:6  laplace, 1 drawn" in done.output
    assert "FOUND seed: traced_library.py:2" in done.output
    words = "traced_library.total --data d.csv --adjacency replace --low 0 --high 1 --within"
    assert "observed sensitivity 1, ε = 1" in call(words.split()).output
    assert isinstance(call(["traced_library.total", "--data", "d.csv"]).exception, DpframeError)


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("name\nbob\n", "--adjacency replace", "could not convert string to float: 'bob'"),
        ("0.2\n", "--adjacency replace", "no rows after the header"),
        ("", "--adjacency replace", "no rows after the header"),
        ("x,y\n1,2\n3\n", "--adjacency replace", "D.csv"),
        ("x\n0.2\n", "--adjacency swap", "'swap' is unknown"),
        ("x\n0.2\n", "", "give --neighbour FILE, or --adjacency replace"),
    ],
)
def test_a_wrong_file_or_option_is_refused(text, more, message, tmp_path):
    (tmp_path / "D.csv").write_text(text)
    call = ["sys.intern", "--data", str(tmp_path / "D.csv"), *more.split()]
    error = CliRunner().invoke(app, call).exception
    assert isinstance(error, DpframeError)
    assert message in str(error)


def test_an_empty_cell_is_missing(tmp_path):
    (tmp_path / "D.csv").write_text("x,y\n1,\n2,3\n")
    table = _read(tmp_path / "D.csv")
    assert np.array_equal(table, [[1, np.nan], [2, 3]], equal_nan=True)


@pytest.mark.parametrize(
    ("function", "more"),
    [(3, {}), (right, {"epsilon": -1.0}), (right, {"delta": 2.0}), (right, {"runs": 0})],
)
def test_a_wrong_call_says_why(function, more):
    with pytest.raises(DpframeError):
        trace(function, D0, D1, **more)
    with pytest.raises(DpframeError, match="with functools"):
        trace(lambda rng, data, low: 0, D0, D1)


def test_the_page_runs():
    names = {"__name__": "page"}
    for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(text, str(PAGE), "exec"), names)
