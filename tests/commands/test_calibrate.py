"""`dpframe calibrate`: an estimator that breaks its promise is found, one that keeps it is not.

Seeds are fixed. A kept promise is called broken with probability at most 0.005 per calibration.
"""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from typing import Any

import pytest
from rich.console import Console
from support.known_truths import KNOWN, spec

import dpframe
from dpframe import DpframeError
from dpframe.commands import audit as auditing
from dpframe.commands.calibrate import calibration, exit_code
from dpframe.report.calibration import calibration_page, parts
from dpframe.report.terminal.text import show_parts
from dpframe.results.store import dumps

PLANTED = {
    "mechanism": [{"use": "silent"}],
    "attack": [{"use": "first"}],
    "estimator": [
        {"use": "greedy", "label": "does not pay"},
        {"use": "greedy", "label": "pays", "params": {"pays": True}},
        {"use": "guess"},
    ],
}


@pytest.fixture(scope="module")
def planted() -> dict[str, Any]:
    """The best of 26 thresholds on a mechanism that leaks nothing."""
    found: dict[str, Any] = dpframe.calibrate(spec(**PLANTED), repeats=150, plugins=KNOWN)
    return found


def by_label(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["estimator"]["label"]: row for row in found["rows"]}


def test_what_does_not_pay_is_found_and_what_pays_is_not(planted: dict[str, Any]) -> None:
    rows = by_label(planted)
    assert rows["does not pay"]["promise"] == "broken"
    assert rows["does not pay"]["rate_low"] > 0.05
    assert rows["does not pay"]["exceeded"] >= rows["does not pay"]["alarm"]
    assert rows["pays"]["promise"] == "kept"
    assert planted["summary"]["broken"] == 1
    assert exit_code(planted) == 1


def test_what_certifies_nothing_is_counted_but_promises_nothing(planted: dict[str, Any]) -> None:
    guess = by_label(planted)["guess"]
    assert (guess["certified"], guess["promise"], guess["alarm"]) == (False, None, None)
    assert guess["rate"] == 1.0  # its interval begins above the truth, always
    assert guess["median_epsilon"] == 1.0
    assert planted["summary"]["promises_nothing"] == 1


@pytest.mark.slow
def test_a_truth_that_is_attained_exactly() -> None:
    """Randomised response at its worst: the rate is what the limits say, and not 0."""
    found = dpframe.calibrate(spec(), repeats=800, trials=[150, 1000], plugins=KNOWN)
    assert exit_code(found) == 0
    small, large = found["rows"]
    assert (small["trials"], large["trials"]) == (150, 1000)
    for row in (small, large):
        assert row["truth"] == {"kind": "pure-dp", "epsilon": 1.0}
        assert row["exceeded"] == round(row["rate"] * 800)
        assert row["share"] == pytest.approx(row["mean_lower"])
        assert 0 < row["exceeded"] < row["alarm"]
    assert 0.4 < small["share"] < large["share"] < 1  # non-vacuous


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    first, again, other = (
        dpframe.calibrate(spec(**PLANTED), repeats=20, seed=seed, plugins=KNOWN)["rows"]
        for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


def test_what_cannot_be_calibrated_says_why() -> None:
    document = spec(
        mechanism=[{"use": "bit"}, {"use": "unknown"}, {"use": "shifted"}],
        attack=[{"use": "first"}],
        estimator=[{"use": "greedy"}, {"use": "breaks"}, {"use": "infinite"}, {"use": "precision"}],
        audit={"delta": 0.0},
    )
    found = dpframe.calibrate(document, repeats=20, plugins=KNOWN)
    rows = by_label(found)
    assert "RuntimeError: broken inside" in rows["breaks"]["reason"]
    assert "gave the bound inf" in rows["infinite"]["reason"]
    assert rows["greedy"]["status"] == "ok"
    assert found["summary"]["failed"] == 2
    assert exit_code(found) == 3
    reasons = {skip["reason"] for skip in found["skipped"]}
    assert reasons == {
        "the true ε of unknown is not known for this pair",
        "the true ε of shifted at δ = 0 is infinite, so no bound can exceed it",
        "first gives a score, precision takes a decision",
    }


@pytest.mark.parametrize(
    ("tables", "arguments", "message"),
    [
        ({}, {"repeats": 0}, "--repeats: 0"),
        ({}, {"repeats": 1}, "too few: even if every bound exceeded the truth"),
        ({"mechanism": [{"use": "unknown"}]}, {}, "nothing to calibrate: the true ε of unknown"),
        ({}, {"trials": [0]}, "trials"),
        ({}, {"overrides": ["mechanism.epsilom=1"]}, "epsilom"),
    ],
)
def test_mistakes(tables: Any, arguments: Any, message: str) -> None:
    with pytest.raises(DpframeError, match=message):
        dpframe.calibrate(spec(**tables), plugins=KNOWN, **{"repeats": 10, **arguments})


@pytest.mark.slow
def test_sweeps_and_repeats_of_the_spec() -> None:
    document = spec(
        audit={"repeats": 3, "multiplicity": "holm"},
        sweep={"audit.trials": [40, 80], "mechanism.epsilon": [0.5, 2.0]},
    )
    found = dpframe.calibrate(document, repeats=30, plugins=KNOWN)
    places = [(row["trials"], row["truth"]["epsilon"]) for row in found["rows"]]
    assert sorted(places) == [(40, 0.5), (40, 2.0), (80, 0.5), (80, 2.0)]
    assert {row["confidence"] for row in found["rows"]} == {0.95}
    assert found["audit"]["multiplicity"] == "none"


def shown(found: dict[str, Any], width: int = 80) -> str:
    file = io.StringIO()
    show_parts(Console(file=file, width=width, _environ={}), parts(found))
    return file.getvalue()


def test_the_report(planted: dict[str, Any]) -> None:
    text = shown(planted)
    assert "silent · true ε 0 at δ = 0" in text
    assert "✗ BROKEN" in text
    assert "○ kept" in text
    assert "~ nothing" in text
    assert "Promises kept: 1, broken: 1" in text
    assert "at the corner of a curve" not in text  # no share of the error is known
    assert all(len(line) <= 80 for line in text.splitlines())
    guess = next(line for line in text.splitlines() if "guess" in line)
    assert "≥" not in guess


def test_the_page(planted: dict[str, Any]) -> None:
    page = calibration_page(planted, "dpframe calibrate x.toml --markdown", "2026-01-02")
    assert "dpframe calibrate x.toml --markdown" in page
    assert page.rstrip().endswith("; 2026-01-02.")
    assert "| 200 | first · does not pay |" in page
    assert page.count("| BROKEN |") == 1
    json.loads(dumps(planted))


def test_what_hides_from_repeats_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two boxes at twice its error: no repeat need show it, and the corner does."""
    from dpframe.builtin import threshold as limits

    lower, exact = limits.LIMITS["clopper-pearson"]
    loose = (lower, lambda k, n, error: exact(k, n, 1.9 * error))
    monkeypatch.setitem(limits.LIMITS, "clopper-pearson", loose)
    found = dpframe.calibrate(spec(), repeats=20, plugins=KNOWN)
    assert [row["promise"] for row in found["rows"]] == ["kept"]
    (corner,) = found["corners"]
    assert (corner["promise"], exit_code(found)) == ("broken", 1)
    text = shown(found)
    assert "precision  decision" in text
    assert "precision of a decision, at the corner: the event with 0.5 of the error" in text
    page = calibration_page(found, "dpframe calibrate x.toml --markdown", "2026-01-02")
    assert "| precision | decision |" in page


def test_an_estimator_that_cannot_be_asked_at_a_corner_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dpframe.builtin.order_statistics import Precision

    whole = Precision.estimate

    def few(self: Any, layout: Any, counts: Any, query: Any) -> Any:
        if counts.sum() > 10_000:
            raise RuntimeError("too many")
        return whole(self, layout, counts, query)

    monkeypatch.setattr(Precision, "estimate", few)
    found = dpframe.calibrate(spec(), repeats=20, plugins=KNOWN)
    assert found["corners"][0]["promise"] is None
    assert exit_code(found) == 0
    text = shown(found, width=200)
    assert "at the corner: not computed: estimate raised RuntimeError: too many" in text


@pytest.mark.slow
def test_progress_tells_of_every_estimate() -> None:
    seen: list[tuple[int, int]] = []

    @contextmanager
    def display(cells: int, total: int) -> Any:
        seen.append((cells, total))
        yield lambda *, cells_done, draws_done, label: seen.append((cells_done, draws_done))

    loaded = [auditing.load(spec(), plugins=KNOWN, trials=n) for n in (50, 60)]
    calibration(loaded, 300, workers=1, display=display)
    assert seen[0] == (2, 600)
    assert seen[-1] == (2, 600)


def test_where_nothing_certifies_nothing_is_said_of_promises() -> None:
    found = dpframe.calibrate(
        spec(**{**PLANTED, "estimator": [{"use": "guess"}]}), repeats=20, plugins=KNOWN
    )
    assert found["corners"] == []
    assert exit_code(found) == 0
