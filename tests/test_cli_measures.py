"""`score`, `compare` and `calibrate` as a user meets them: exit codes, streams, messages."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import SPECS
from support.processes import DPFRAME, HANGS, are_ready, started, until, workers
from typer.testing import CliRunner

from dpframe.cli import app

pytestmark = pytest.mark.usefixtures("coarse_bounds")

QUICK = SPECS / "quick.toml"

CALIBRATED = """
schema = 1
audit = { name = "small", trials = 100, seed = 2 }
pair = { use = "zeros-ones" }
mechanism = [{ use = "laplace-halved", params = { epsilon = 1.0 } }]
attack = [{ use = "majority-vote" }]
estimator = [{ use = "precision" }]
"""


@pytest.fixture(autouse=True)
def in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "small.toml").write_text(CALIBRATED)
    rng = np.random.default_rng(0)
    np.save("in.npy", rng.normal(1, 1, 500))
    np.save("out.npy", rng.normal(0, 1, 400))
    np.save("square.npy", np.zeros((3, 3)))
    np.save("bits.npy", rng.random(400) < 0.5)
    np.save("more.npy", np.load("bits.npy"))


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [*map(str, words)])


SCORES = ("score", "--in", "in.npy", "--out", "out.npy")


def test_score() -> None:
    done = invoke(*SCORES, "--delta", "1e-5", "--claim", "epsilon=0.1,delta=1e-5")
    assert done.exit_code == 1, done.output
    assert "✗ The claim is refuted at 95 % confidence, corrected for" in done.stdout
    assert done.stderr == ""
    assert "in.npy: 500 scores (D′, with the record)" in done.stdout
    assert "order-statistics" in done.stdout
    assert "multiplicity none" in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.parametrize("names", [("--scores1", "--scores0"), ("--in", "--out")])
def test_a_claim_that_is_not_refuted_is_no_failure(names: tuple[str, str]) -> None:
    words = ("score", names[0], "in.npy", names[1], "out.npy", "--estimator", "order-statistics")
    done = invoke(*words, "--claim", "epsilon=3")
    assert done.exit_code == 0, done.output
    assert "○ The claim is not refuted at 95 % confidence." in done.stdout
    assert "corrected" not in done.stdout
    assert invoke(*words, "--claim", "epsilon=0.1", "--json").exit_code == 1
    assert invoke(*words).exit_code == 0


def test_notes_are_folded() -> None:
    words = (*SCORES, "--estimator", "gdp", "--estimator", "histogram")
    folded, shown = (" ".join(invoke(*words, *more).stdout.split()) for more in ([], ["--notes"]))
    note = "chose thresholds or bins; the rest were counted"
    assert "shown with --notes" in folded
    assert note not in folded
    assert note in shown
    assert "shown with --notes" not in shown


def test_a_claim_that_nothing_tests_does_not_pass() -> None:
    words = (*SCORES, "--estimator", "gdp-fit", "--claim", "epsilon=3")
    done = invoke(*words)
    assert done.exit_code == 3, done.output
    assert "! The claim was not tested: no selected estimator" in done.stdout
    assert "○" not in done.stdout
    assert invoke(*words, "--json").exit_code == 3
    assert invoke(*words, "--estimator", "order-statistics").exit_code == 0


@pytest.mark.slow
def test_scores_are_drawn_with_what_is_certified() -> None:
    pytest.importorskip("matplotlib")
    asked = (*SCORES, "--estimator", "order-statistics")
    done = invoke(*asked, "--plot", "roc.svg")
    assert done.exit_code == 0, done.output
    assert "roc.svg: in.npy and out.npy: 500 scores with the record, 400 without." in done.stdout
    Path("s.json").write_text(invoke(*asked, "--json", "--plot", "again.svg").stdout)
    assert json.loads(Path("s.json").read_text())["kind"] == "score"
    assert Path("again.svg").read_bytes() == Path("roc.svg").read_bytes()
    fits, misfits = invoke("plot", "s.json").stdout.splitlines()
    assert fits == "roc: fits"
    assert misfits.startswith("wealth: does not fit: it has no bets on steps")
    assert invoke("plot", "s.json", "-o", "third.svg").exit_code == 0
    assert Path("third.svg").read_bytes() == Path("roc.svg").read_bytes()
    Path("s.json").write_text(Path("s.json").read_text()[:-5])
    assert "s.json: not JSON" in invoke("plot", "s.json").stderr
    wrong = invoke(*asked, "--plot", "roc.txt")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "a figure is written as .svg, .png or .pdf" in wrong.stderr


def test_score_as_json() -> None:
    words = ("--estimator", "order-statistics", "--set", "estimator.direction=up", "--json")
    found = json.loads(invoke(*SCORES, *words, "--confidence", "0.9", "--seed", "3").stdout)
    (row,) = found["rows"]
    assert row["estimator"]["params"]["direction"] == "up"
    assert (found["seed"], row["estimate"]["confidence"]) == (3, 0.9)
    assert found["scores"]["in"]["name"] == "in.npy"


def test_score_says_that_the_best_of_several_is_not_for_nothing() -> None:
    done = invoke("score", "--in", "bits.npy", "--out", "more.npy")
    headline, _, rest = done.stdout.partition("\n")
    bounds = rest.count("≥")
    assert bounds >= 2
    assert headline == "ε ≥ 0 at δ = 0, 95 % (order-statistics)"
    flat = " ".join(done.stdout.split())
    assert f"Not adjusted for {bounds} bounds: each holds alone at 95 %" in flat
    assert f"holds with {100 - 5 * bounds} %" in flat


def test_the_answer_comes_first_and_what_certifies_nothing_on_demand() -> None:
    lines = invoke(*SCORES, "--delta", "1e-5").stdout.splitlines()
    assert re.fullmatch(r"ε ≥ \S+ at δ = 1e-5, 95 % \(order-statistics\)", lines[0])
    assert re.fullmatch(r"AUC 0\.\d+ · TPR \S+ % at FPR 1 %, \S+ % at FPR 0.1 %", lines[1])
    assert not any("no bound" in line for line in lines[2:])
    assert re.match(r"Shown with --all: \d+ estimators left out", lines[-1])
    every = invoke(*SCORES, "--delta", "1e-5", "--all").stdout
    assert re.search(r"^gdp-fit +no bound", every, re.MULTILINE)
    assert "– precision: left out: takes a decision, was given a score" in every
    assert "--all" not in every


def test_the_largest_of_several_bounds_pays_for_the_choice() -> None:
    asked = ("--estimator", "threshold", "--estimator", "histogram")
    assert ", 90 % (" in invoke(*SCORES, *asked).stdout.splitlines()[0]
    done = invoke(*SCORES, *asked, "--confidence", "0.4")
    assert done.stdout.startswith("There is no headline bound")
    refuted = invoke(*SCORES, *asked, "--claim", "epsilon=0.01").stdout
    assert " ".join(refuted.split()).startswith(
        "✗ The claim is refuted at 95 % confidence, corrected for 2 estimators (Bonferroni)."
    )


def test_compare() -> None:
    done = invoke("compare", QUICK, "--trials", "500", "--set", "pair.dim=2")
    assert done.exit_code == 0, done.output
    assert "laplace · ε 0.5" in done.stdout
    assert "majority-vote · precision" in done.stdout.replace("\n", " ")
    assert not Path("runs").exists()
    found = json.loads(
        invoke(
            "compare", QUICK, "--trials", "500", "--set", "mechanism.epsilon=1.0", "--json"
        ).stdout
    )
    assert len(found["rows"]) == 6
    assert {row["confidence"] for row in found["rows"]} == {0.95}


@pytest.mark.slow
def test_calibrate() -> None:
    done = invoke("calibrate", "small.toml", "--repeats", "200", "--trials", "50", "--trials", "99")
    assert done.exit_code == 0, done.output
    assert "laplace-halved · true ε 1.00 at δ = 0" in done.stdout
    assert done.stdout.count("○ kept") == 3  # two lines, one computed
    assert "Promises kept: 3, broken: 0" in done.stdout
    assert not Path("runs").exists()


def test_calibrate_as_json_and_as_a_page() -> None:
    words = ("calibrate", "small.toml", "--repeats", "30")
    found = json.loads(invoke(*words, "--json").stdout)
    assert [row["trials"] for row in found["rows"]] == [100]
    page = invoke(*words, "--seed", "4", "--set", "run.pilot=50", "--markdown").stdout
    command = "dpframe calibrate small.toml --repeats 30 --set run.pilot=50 --seed 4 --markdown"
    assert command in page
    assert "| 100 | majority-vote · precision |" in page


def test_a_broken_promise_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism that leaks more than it knows of makes an honest bound look broken."""
    from dpframe import PureDP
    from dpframe.builtin.pure_mechanisms import LaplaceHalved

    monkeypatch.setattr(LaplaceHalved, "truth", lambda self, pair: PureDP(0.1))
    done = invoke("calibrate", "small.toml", "--repeats", "100", "--trials", "2000")
    assert done.exit_code == 1, done.output
    assert "✗ BROKEN" in done.stdout


def test_a_line_that_cannot_run_exits_3(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpframe.builtin.order_statistics import Precision

    def fail(*_: Any) -> Any:
        raise RuntimeError("inside")

    monkeypatch.setattr(Precision, "estimate", fail)
    done = invoke("calibrate", "small.toml", "--repeats", "100")
    assert done.exit_code == 3, done.output
    assert "estimate raised RuntimeError: inside" in " ".join(done.stdout.split())


MISTAKES = [
    ([*SCORES[:3], "--out", "gone.npy"], "gone.npy: no such file"),
    (
        [*SCORES[:3], "--out", "square.npy"],
        "square.npy: name the column with --column",
    ),
    ([*SCORES[:3], "--out", "bits.npy"], "decisions on one side"),
    ([*SCORES[:3]], "give one of: TABLE, --scores1 FILE --scores0 FILE, --one-run FILE"),
    ([*SCORES, "--confidence", "2"], "confidence: 2.0"),
    ([*SCORES, "--estimator", "order"], "unknown estimator 'order'"),
    ([*SCORES, "--claim", "eps=1"], "no claim takes eps"),
    ([*SCORES, "--set", "mechanism.epsilon=1"], "should be estimator.X=VALUE"),
    ([*SCORES, "--set", "estimator.direction=left"], "direction"),
    ([*SCORES, "--set", "estimator.colour=red"], "'colour'"),
    (["compare", "gone.toml"], "no such file"),
    (["compare", QUICK, "--set", "mechanism.epsilom=1"], "did you mean"),
    (["calibrate", "gone.toml"], "no such file"),
    (["calibrate", "small.toml", "--repeats", "0"], "--repeats"),
    (["calibrate", "small.toml", "--repeats", "1"], "too few"),
    (["calibrate", "small.toml", "--trials", "0"], "trials"),
    (["calibrate", "small.toml", "--json", "--markdown"], "one of them"),
    (
        ["calibrate", QUICK, "--set", "mechanism.epsilon=1", "--set", "run.chunk=3"],
        "power of two",
    ),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_mistakes_exit_2_with_one_clear_message(words: list[object], message: str) -> None:
    done = invoke(*words)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "term")],
)
def test_an_interrupted_calibration_ends_with_its_processes(
    number: int, code: int, word: str, tmp_path: Path
) -> None:
    words = ["calibrate", "small.toml", "--repeats", "1000000", "--workers", "2"]
    with started(*DPFRAME, *words, cwd=tmp_path) as process:
        # Two that play, and one of multiprocessing's own.
        until(process, lambda: are_ready(workers(process), 3))
        process.send_signal(number)
        _, printed = process.communicate(timeout=HANGS)  # ends when the last of them has
    assert process.returncode == code, printed
    assert word in printed
    assert "nothing is kept" in printed
    assert "Traceback" not in printed


class Deaf:
    """Python drops what is raised in `__del__`, as in a callback of the garbage collector."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_that_python_drops_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager

    from dpframe.cli.process import Terminated, answered, end_in_order

    told = []
    printed: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)

    @contextmanager
    def display(*_: int) -> Any:
        yield lambda **how_far: told.append(how_far)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number, error in ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)):
            with end_in_order(display)(1, 1) as progress:
                progress(cells_done=0, draws_done=0, label="")
                with pytest.raises(error):
                    os.kill(os.getpid(), number)
                with pytest.raises(error):
                    progress(cells_done=1, draws_done=1, label="")
            answered()
        with end_in_order(display)(1, 1) as progress:
            deaf = Deaf()
            del deaf
            with pytest.raises(Terminated):
                progress(cells_done=1, draws_done=1, label="")
    finally:
        answered()
        for number, handler in before.items():
            signal.signal(number, handler)
    assert len(told) == 2
    assert printed == []


def test_a_report_of_scores_by_either_command() -> None:
    asked = (*SCORES, "--estimator", "order-statistics", "--claim", "epsilon=3")
    done = invoke(*asked, "--report", "r.md", "--json")
    assert done.exit_code == 0, done.output
    Path("s.json").write_text(done.stdout)
    assert invoke("report", "s.json", "-o", "again.md").exit_code == 0
    text = Path("r.md").read_text()
    assert text == Path("again.md").read_text()
    assert text.startswith("## ○ The claim is not refuted at 95 % confidence.")
    wrong = invoke(*asked, "--report", "r.xml")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "must be .html, .md, .csv or .json" in wrong.stderr
