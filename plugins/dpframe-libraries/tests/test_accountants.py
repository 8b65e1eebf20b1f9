"""`dpframe accountants` with fake accountants: correct, too low, loose, broken."""

import csv
import importlib.metadata
import json
import math
import re
import sys
from pathlib import Path

import pytest
from dpframe_libraries.accountants import asking, judging, questions, reporting
from dpframe_libraries.accountants.asking import AccountantProcess
from dpframe_libraries.accountants.command import app
from dpframe_libraries.accountants.pairs import Step
from dpframe_libraries.accountants.questions import AccountantQuestion
from dpframe_libraries.accountants.truth import intervals
from typer.testing import CliRunner

from dpframe import DpframeError, GaussianDP

FAKES = '''
import math, os, sys

def right(question):
    """Balle and Wang: Gaussian releases without samples."""
    if any(s["noise"] != "gaussian" or s["sampling"] != "none" for s in question["steps"]):
        raise NotImplementedError("Gaussian releases alone")
    if question["relation"] != "add-remove":
        raise NotImplementedError("add-remove alone")
    mu = math.sqrt(sum(s["count"] / s["scale"] ** 2 for s in question["steps"]))
    cdf = lambda x: math.erfc(-x / math.sqrt(2)) / 2
    found = []
    for delta in question["deltas"]:
        low, high = 0.0, mu * mu / 2 + 10 * mu
        for _ in range(60):
            e = (low + high) / 2
            over = cdf(mu / 2 - e / mu) - math.exp(e) * cdf(-mu / 2 - e / mu) > delta
            low, high = (e, high) if over else (low, e)
        found.append(high)
    return found

def low(question):
    print("a library may print")
    few = sum(s["count"] for s in question["steps"]) < 3
    return [e * (1 if few else 0.99) for e in right(question)]

def crash(question):
    if question["steps"][0]["scale"] < 1:
        os._exit(7)
    return right(question)

def hang(question):
    while question["steps"][0]["scale"] < 1:
        pass
    return right(question)

def raising(question):
    raise ZeroDivisionError("0 at %s" % question["deltas"])

VERSION = "1.0"
ACCOUNTANTS = {
    "right": (right, "upper", "add-remove; Gaussian"),
    "low": (low, "upper", "add-remove; Gaussian"),
    "under": (right, "lower", "add-remove; Gaussian"),
    "over": (lambda q: [1.01 * e for e in right(q)], "lower", "add-remove; Gaussian"),
    "loose": (lambda q: [3 * e for e in right(q)], "upper", "add-remove; Gaussian"),
    "nan": (lambda q: [math.nan for e in right(q)], "upper", "add-remove; Gaussian"),
    "infinite": (lambda q: [math.inf for e in right(q)], "upper", "add-remove; Gaussian"),
    "short": (lambda q: right(q)[1:], "upper", "add-remove; Gaussian"),
    "raising": (raising, "upper", "add-remove; Gaussian"),
    "crash": (crash, "upper", "add-remove; Gaussian"),
    "hang": (hang, "upper", "add-remove; Gaussian"),
}
'''
GRID = """
deltas = [1e-3, 1e-6]

[[composition]]
noise = "gaussian"
scale = [0.7, 4.0]
count = 9

[[composition]]
noise = "laplace"
scale = 2.0
"""
WRONG = {"low": "below", "over": "above", "loose": "loose", "nan": "failed", "infinite": "loose",
         "short": "failed", "raising": "failed", "crash": "failed", "hang": "failed"}  # fmt: skip


@pytest.fixture
def files(tmp_path):
    (tmp_path / "fakes.py").write_text(FAKES)
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path


@pytest.fixture
def command(files, monkeypatch):
    monkeypatch.setattr(asking, "ADAPTERS", ())

    def call(*arguments):
        told = ["--grid", str(files / "grid.toml"), "--adapter", str(files / "fakes.py")]
        return CliRunner().invoke(app, [*told, *arguments])

    return call


def test_each_fault_is_found_and_nothing_else(command, files):
    reports = [str(files / f"r{suffix}") for suffix in reporting.FORMATS]
    found = command("--seconds", "0.2", *(part for one in reports for part in ("--report", one)))
    assert found.exit_code == 1, found.output
    told = json.loads((files / "r.json").read_text())
    kinds = {one["accountant"].split()[0]: one["kind"] for one in told["findings"]}
    assert kinds == WRONG
    assert not any("laplace" in row["composition"] for row in told["rows"] if not row["failure"])
    assert told["not asked"]["right 1.0"] == {"Gaussian releases alone": 2}
    # A crash and a hang cost their own answers.
    rows = [row for row in told["rows"] if row["accountant"].startswith(("crash", "hang"))]
    assert sum(row["epsilon"] is not None for row in rows) == 4
    smallest = {one["accountant"].split()[0]: one["smallest"] for one in told["findings"]}
    assert smallest["low"]["composition"] == "3 × (gaussian σ = 1)"
    assert smallest["loose"]["composition"] == "gaussian σ = 1"
    assert "ended with code 7" in smallest["crash"]["failure"]
    assert "no answer within 0.2 seconds" in smallest["hang"]["failure"]
    assert "low 1.0: below the true ε at 4 settings" in found.output
    with (files / "r.csv").open(newline="") as stream:
        assert len(list(csv.DictReader(stream))) == len(told["rows"])
    assert "low 1.0" in (files / "r.svg").read_text()


def test_a_right_accountant_passes(command):
    found = command("--only", "right")
    assert found.exit_code == 0, found.output
    assert "does not prove an accountant right" in found.output
    found = command("--only", "raising")
    assert found.exit_code == 3


def test_a_killed_comparison_goes_on(command, files):
    """A stored answer is not requested again, but a half-written line is."""
    out, reports = files / "answers.jsonl", [files / "1.csv", files / "2.csv"]
    asked = ["--only", "right", "--out", str(out), "--report"]
    assert command(*asked, str(reports[0])).exit_code == 0
    lines = out.read_text().splitlines(keepends=True)
    told = next(n for n, line in enumerate(lines) if '"epsilons"' in line)
    changed = json.loads(lines[told])
    changed["epsilons"][0] *= 1 + 1e-9
    kept = [*lines[:told], json.dumps(changed) + "\n", *lines[told + 1 : -1], lines[-1][:20]]
    out.write_text("".join(kept))
    assert command(*asked, str(reports[1])).exit_code == 0
    one, two = ([*csv.DictReader(file.read_text().splitlines())] for file in reports)
    changes = [a for a, b in zip(one, two, strict=True) if a["epsilon"] != b["epsilon"]]
    assert len(changes) == 1
    assert out.read_text().splitlines()[-1] == lines[-1].rstrip()
    refused = command(*asked[:-1], "--seconds", "7").exception  # a limit changes answers
    assert "something else wrote it" in str(refused)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--python", "x"], "should be NAME=PATH"),
        (["--python", "x=/nowhere"], "no such interpreter"),
        (["--python", "x=/dev/null"], "no such interpreter"),
        (["--loose", "1"], "a factor above 1"),
        (["--seconds", "0"], "a time above 0"),
        (["--report", "x.pdf"], "must end in .json"),
        (["--adapter", "nowhere.py"], "no such file"),
        (["--only", "nobody"], "no accountant was found"),
        (["--grid", "nowhere.toml"], "nightly and quick are built in"),
    ],
)
def test_mistakes_are_told(command, arguments, problem):
    found = command(*arguments)
    assert isinstance(found.exception, DpframeError)
    assert problem in str(found.exception)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1", "unknown key 'x'"),
        ("deltas = [1e-5]", r"at least one \[\[composition\]\]"),
        ("deltas = [2.0]\n[[composition]]\nnoise='gaussian'\nscale=1.0", "below 1"),
        ("[[composition]]\nnoise='gauss'\nscale=1.0", "1: noise = 'gauss' is not one of"),
        ("[[composition]]\nnoise='gaussian'", "'scale' is missing"),
        ("[[composition]]\nnoise='gaussian'\nscale=-1.0", "not finite and positive"),
        ("[[composition]]\nnoise='gaussian'\nscale=1.0\nsigma=1.0", "unknown key 'sigma'"),
        ("relations=['x']\n[[composition]]\nnoise='gaussian'\nscale=1.0", "relation 'x'"),
        ("[[composition]]\nsteps=[{noise='laplace',scale=1.0}]\nrate=0.1", "'rate' belongs inside"),
        ("[[composition]]\nnoise='laplace'\nscale=1.0\nsampling='poisson'\nrate=0.1\n"
         "relations=['replace']", "known only for Gaussian noise"),
    ],
)  # fmt: skip
def test_mistakes_in_grids_are_told(tmp_path, text, problem):
    (tmp_path / "g.toml").write_text(text)
    with pytest.raises(DpframeError, match=problem):
        questions.read_grid(tmp_path / "g.toml")


def test_grids_cross_lists_and_steps(tmp_path):
    (tmp_path / "g.toml").write_text(
        "[[composition]]\nrelations=['add-remove','zero-out']\n"
        "steps=[{noise='gaussian',scale=[1.0,2.0]},{noise='laplace',scale=3.0,count=[1,2]}]"
    )
    found = questions.read_grid(tmp_path / "g.toml")
    assert len(found) == 8
    assert {len(one.steps) for one in found} == {2}


@pytest.mark.parametrize(("name", "settings"), [("quick", 99), ("nightly", 10_000)])
def test_the_grids_that_are_built_in(name, settings):
    path = Path(asking.__file__).parent / "grids" / f"{name}.toml"
    found = questions.read_grid(path)
    assert sum(len(one.deltas) for one in found) >= settings


def test_a_truth_that_is_too_wide_accuses_nobody():
    wide = judging.Interval(1.0, 3.0)
    for epsilon, claim, kind in (
        (0.999, "upper", "below"),
        (1.0, "upper", None),
        (2.0, "lower", None),
        (3.1, "lower", "above"),
        (5.9, "upper", None),
        (6.1, "upper", "loose"),
        (float("inf"), "upper", "loose"),
    ):
        assert judging._fault(epsilon, wide, claim, 2.0) == kind
    assert judging._fault(-0.01, judging.Interval(0, 0), "upper", 2.0) is None
    assert judging._fault(float("inf"), judging.Interval(0, float("inf")), "upper", 2.0) is None


def test_shrinking_keeps_the_fault_and_ends(files):
    with AccountantProcess("here", Path(sys.executable), [files / "fakes.py"]) as here:
        (low,) = [one for one in here.accountants if one.name == "low"]
        steps = (Step("gaussian", 3.3, 50), Step("gaussian", 1.7, 20))
        start = AccountantQuestion(steps, "add-remove", (3.3e-7,))
        truths = intervals(start.steps, start.relation, start.deltas)
        (row,) = judging.judged(start, low, truths, here.ask(low, start), 2.0)
        small = judging.shrunk(row, here.ask, 2.0)
    assert small.kind == row.kind == "below"
    assert small.question == AccountantQuestion((Step("gaussian", 1.0, 3),), "add-remove", (1e-5,))


def test_a_library_that_is_not_there_is_named(tmp_path):
    (tmp_path / "of_nothing.py").write_text("import nothing_of_this_name")
    with AccountantProcess("here", Path(sys.executable), [tmp_path / "of_nothing.py"]) as here:
        assert here.accountants == ()
        assert "nothing_of_this_name" in here.missing["of_nothing"]


def test_dp_accounting_is_tight_and_never_below():
    """The accountant that claims rest on, from above and from below."""
    adapter = asking.WORKER.parent / "of_dp_accounting.py"
    steps = (Step("gaussian", 4.0, 3, "poisson", 0.1), Step("laplace", 5.0, 2))
    question = AccountantQuestion(steps, "add-remove", (1e-3, 1e-6))
    truths = intervals(question.steps, question.relation, question.deltas)
    with AccountantProcess("here", Path(sys.executable), [adapter]) as here:
        for accountant in here.accountants:
            answer = here.ask(accountant, question)
            rows = judging.judged(question, accountant, truths, answer, 1.5)
            assert [row.kind for row in rows] == [None, None], accountant.name
            if accountant.name == "dp-accounting PLD":
                assert answer.epsilons == pytest.approx([t.upper for t in truths], rel=2e-3)
            if "RDP" in accountant.name:
                assert answer.not_asked or answer.epsilons


def test_the_grid_and_the_accountant_of_the_documents_work(tmp_path, monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "how-to" / "compare-accountants.md"
    blocks = dict(re.findall(r"```(toml|python)\n(.*?)```", page.read_text(), re.DOTALL))
    (tmp_path / "grid.toml").write_text(blocks["toml"])
    (tmp_path / "mine.py").write_text(blocks["python"])
    assert len(questions.read_grid(tmp_path / "grid.toml")) == 9
    monkeypatch.setattr(asking, "ADAPTERS", ())
    (tmp_path / "own.toml").write_text("[[composition]]\nnoise='gaussian'\nscale=2.0\ncount=[1,9]")
    options = ["--grid", str(tmp_path / "own.toml"), "--adapter", str(tmp_path / "mine.py")]
    found = CliRunner().invoke(app, options)
    assert found.exit_code == 0, found.output
    assert "my accountant" in found.output


NIGHTLY = Path(questions.__file__).parent / "grids" / "nightly.toml"
SAMPLED = Step("gaussian", 3.0, 50, "poisson", 0.2)
PUBLIC = {  # answers that public reports call too low
    "Opacus GDP 1.6.0, opacus issues 384 and 643": (SAMPLED, "add-remove", 1 / 48_000, 1.838478),
    "dp-accounting RDP 0.6.0, differential-privacy issue 378": (
        Step("gaussian", 1.0),
        "replace",
        1e-5,
        4.728507,
    ),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_answers_that_public_reports_call_too_low_are_below_the_truth(name):
    step, relation, delta, epsilon = PUBLIC[name]
    question = AccountantQuestion((step,), relation, (delta,))
    truths = intervals((step,), relation, (delta,))
    found = {}
    for told in (epsilon, truths[0].upper):
        accountant = asking.Accountant(name, "", "upper", relation)
        answer = asking.Answer((told,))
        found[told] = [row.kind for row in judging.judged(question, accountant, truths, answer, 99)]
    assert found == {epsilon: ["below"], truths[0].upper: [None]}


def test_the_recorded_answer_for_opacus_is_that_of_its_formula():
    """μ = rate √(steps (e^(1/σ²) − 1)), and the δ(ε) of μ-GDP."""
    step, _, delta, epsilon = PUBLIC["Opacus GDP 1.6.0, opacus issues 384 and 643"]
    mu = step.rate * math.sqrt(step.count * math.expm1(step.scale**-2))
    assert GaussianDP(mu).epsilon_at(delta) == pytest.approx(epsilon, abs=1e-5)


def test_the_recorded_answer_for_dp_accounting_is_that_of_the_library():
    rdp = pytest.importorskip("dp_accounting.rdp")
    if importlib.metadata.version("dp-accounting") != "0.6.0":
        pytest.skip("another release")
    from dp_accounting import GaussianDpEvent, NeighboringRelation

    step, _, delta, epsilon = PUBLIC["dp-accounting RDP 0.6.0, differential-privacy issue 378"]
    accountant = rdp.RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(GaussianDpEvent(step.scale))
    assert accountant.get_epsilon(delta) == pytest.approx(epsilon, abs=1e-5)


def test_the_nightly_grid_asks_what_public_reports_are_about():
    """Large ε after one step (prv_accountant issues 36 and 42), and `replace` for RDP (378)."""
    asked = questions.read_grid(NIGHTLY)
    single = [one for one in asked if len(one.steps) == 1 and one.steps[0].count == 1]
    steps = {(one.relation, one.steps[0]) for one in single}
    assert ("replace", Step("gaussian", 1.0)) in steps
    large = Step("gaussian", 0.1, 1, "poisson", 0.2)
    assert ("add-remove", large) in steps
    assert intervals((large,), "add-remove", (1e-5,))[0].lower > 40
