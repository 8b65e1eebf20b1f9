"""Mistakes that people make with score files end in a message, and never in a verdict."""

from __future__ import annotations

import csv
import gzip
import html
import io
import json
import re
import shlex
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import made_records
from typer.testing import CliRunner

import dpframe
from dpframe.cli import app
from dpframe.results.store import as_record

pytestmark = pytest.mark.usefixtures("coarse_bounds")


@pytest.fixture(autouse=True)
def in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [*map(str, words)])


# Commands in reports.


SPEC = """
schema = 1
audit = { name = "small", trials = 500 }
pair = { use = "zeros-ones" }
mechanism = [{ use = "laplace", params = { epsilon = 1.0 } }]
attack = [{ use = "majority-vote" }]
estimator = [{ use = "precision" }]
"""


@pytest.mark.parametrize(
    ("path", "overrides", "command"),
    [
        ("a.toml", [], "dpframe plan a.toml --power=0.8"),
        (
            "my audit.toml",
            ["mechanism.epsilon=2.0", "audit.trials=500"],
            "dpframe plan 'my audit.toml' --set mechanism.epsilon=2.0 --set audit.trials=500 "
            "--power=0.8",
        ),
        ("", [], None),
    ],
)
def test_the_command_for_the_power_is_whole(
    path: str, overrides: list[str], command: str | None
) -> None:
    found = made_records.record([made_records.cell("laplace", verdict="consistent")])
    found["spec"] |= {"path": path, "overrides": overrides}
    text = html.unescape(str(dpframe.report(as_record(found))))
    assert "No violation found means" in text
    printed = re.findall(r"Power: (dpframe plan .*?)</", text)
    assert printed == ([] if command is None else [command])


@pytest.mark.slow
def test_the_command_for_the_power_runs_as_it_is_printed() -> None:
    Path("my audit.toml").write_text(SPEC)
    done = invoke("run", "my audit.toml", "--set", "mechanism.epsilon=2.0", "--quiet")
    (command,) = re.findall(r"Power: dpframe (.*)", done.stdout)
    words = shlex.split(command)
    assert words[:4] == ["plan", "my audit.toml", "--set", "mechanism.epsilon=2.0"]
    again = invoke(*words)
    assert again.exit_code == 0, again.output
    assert "detected" in again.stdout


# CSV files that dpframe writes.

FORMULAS = ["\n=1+1", " \n+1", " =1", "\u00a0-1", "\n\n=1", "\ufeff=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_a_csv_begins_like_a_formula(text: str) -> None:
    cell = made_records.cell()
    cell["mechanism"]["label"] = text
    dpframe.report(as_record(made_records.record([cell])), "r.csv")
    found = dpframe.score(np.arange(40.0) ** 2, np.arange(40.0), estimators=["order-statistics"])
    found["rows"][0]["estimator"]["label"] = text
    dpframe.report(found, "s.csv")
    for name, column in (("r.csv", "mechanism"), ("s.csv", "estimator")):
        written = io.StringIO(Path(name).read_bytes().decode(), newline="")
        assert next(csv.DictReader(written))[column].startswith("'")


# Columns. The scores depend on the class alone, so membership shows no loss at all.

N = 600
RNG = np.random.default_rng(7)
CLASS = RNG.integers(0, 2, N)
SCORE = np.round(RNG.normal(size=N) + 3 * CLASS, 6)
IN = RNG.integers(0, 2, N)
OTHER = np.round(RNG.normal(size=N), 6)
IDS = np.arange(N)
LEAK = np.round(RNG.normal(size=N) + 3 * IN, 6)
ASKED = ("--estimator", "order-statistics")
CLAIM = (*ASKED, "--claim", "epsilon=0.5")


def write(name: str, **columns: Any) -> str:
    """Write a table; a double underscore stands for a blank in a title."""
    rows = zip(*columns.values(), strict=True)
    with Path(name).open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t" if ".tsv" in name else ",")
        table.writerow([title.replace("__", " ") for title in columns])
        table.writerows(rows)
    return name


def refused(*words: object, says: tuple[str, ...]) -> None:
    done = invoke("score", *words)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for text in says:
        assert text in done.stderr


TITLES = [
    *("in_train", "is_train", "In-Train", "train", "is__training", "membership", "isMember"),
    *("seen", "in", "in_training_set", "included", "used_in_training", "Is Member"),
]


@pytest.mark.parametrize("title", TITLES)
def test_membership_is_known_by_its_name_beside_a_class(title: str) -> None:
    write("t.csv", score=SCORE, label=CLASS, **{title: IN})
    done = invoke("score", "t.csv", *CLAIM)
    assert done.exit_code == 0, done.output
    name, inside = title.replace("__", " "), int(IN.sum())
    line = f"score = column score, membership = column {name} ({inside} in, {N - inside} out)"
    assert line in done.stdout
    assert "Direction: larger is member" in done.stdout


def test_the_record_has_the_columns_and_the_direction() -> None:
    write("t.csv", id=IDS, target=CLASS, loss=-SCORE, split=np.where(IN, "train", "Test"))
    found = json.loads(invoke("score", "t.csv", *CLAIM, "--json").stdout)
    inside = int(IN.sum())
    columns = {"score": "loss", "membership": "split", "in": inside, "out": N - inside}
    assert found["scores"]["columns"] == columns
    assert found["scores"]["direction"]["stated_by"] == "title"
    assert found["refuted"] is False
    assert "the column is called a loss" in str(dpframe.score("t.csv", estimators=[ASKED[1]]))


@pytest.mark.parametrize(
    ("score", "title"), [("confidence", "y_true"), ("score", "label"), ("loss", "correct")]
)
def test_a_class_is_membership_only_alone_and_with_a_warning(score: str, title: str) -> None:
    write("t.csv", **{score: SCORE, title: CLASS})
    done = invoke("score", "t.csv", *ASKED)
    assert done.exit_code == 0
    assert f"! Column {title} is read as membership, but by its name it is a class" in done.stdout
    assert "--member" in done.stdout
    found = json.loads(invoke("score", "t.csv", *ASKED, "--json").stdout)
    assert title in found["warnings"][0]
    judged = invoke("score", "t.csv", *CLAIM)
    assert judged.exit_code == 3
    assert f"! The claim was not tested: Column {title} is read as membership" in judged.stdout
    named = invoke("score", "t.csv", *CLAIM, "--member", title)
    assert named.exit_code == 1
    assert f"! Column {title} is read as membership, but" in named.stdout


@pytest.mark.parametrize("title", ["sex", "is_spam", "group"])
def test_an_unknown_column_is_membership_only_alone_and_judges_no_claim(title: str) -> None:
    write("t.csv", **{"score": SCORE, title: CLASS})
    done = invoke("score", "t.csv", *CLAIM)
    assert done.exit_code == 3
    assert f"Column {title} is read as membership, because it is the only other" in done.stdout
    one = invoke("score", "--one-run", "t.csv", "--estimator", "one-run", "--claim", "epsilon=0.5")
    assert one.exit_code == 3
    assert "violated" not in one.stdout


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "two classes": (
        {"loss": SCORE, "label": CLASS, "correct": IN},
        (),
        ("--member", "label, correct"),
    ),
    "class and id": ({"id": IDS, "score": SCORE, "label": CLASS}, (), ("--member", "label")),
    "classes alone": ({"label": CLASS, "correct": IN}, (), ("--column", "label, correct")),
    "an id as score": ({"id": IDS, "in_train": IDS < 300}, (), ("--column", "id, in_train")),
    "a named id": (
        {"image_id": IDS, "score": SCORE, "in_train": IN},
        ("--column", "image_id"),
        ("image_id numbers the rows",),
    ),
    "shuffled rows as score": (
        {"x": IDS[::-1], "in_train": IDS < 300},
        (),
        ("--column", "x numbers the rows"),
    ),
    "rows as score": ({"x": IDS, "in_train": IDS < 300}, (), ("--column", "x numbers the rows")),
    "several scores": (
        {"loss": OTHER, "confidence": SCORE, "member": IN},
        (),
        ("--column", "loss, confidence"),
    ),
    "two memberships": (
        {"score": OTHER, "in_train": IN, "is_member": CLASS},
        (),
        ("--member", "in_train, is_member"),
    ),
    "a copy": ({"score": IN, "member": IN}, (), ("column score equals the memberships",)),
    "a copy as decisions": (
        {"score": IN == 1, "member": IN},
        (),
        ("column score equals the memberships",),
    ),
    "swapped names": (
        {"score": SCORE, "member": IN},
        ("--column", "member", "--member", "score"),
        ("member has memberships",),
    ),
    "constant": ({"score": SCORE, "in_train": IN * 0}, (), ("nothing is in", "in_train")),
    "three values": ({"score": SCORE, "in_train": IDS % 3}, (), ("t.csv:4", "in_train", "0, 1, 2")),
    "one and two": ({"score": SCORE, "in_train": IN + 1}, (), ("in_train", "1, 2")),
    "three words": (
        {"score": SCORE, "split": np.resize(["train", "val", "test"], N)},
        (),
        ("t.csv:3", "'val'", "split"),
    ),
    "probabilities": (
        {"score": SCORE, "member": np.linspace(0.1, 0.9, N)},
        (),
        ("t.csv:2", "a membership is 0.1", "member"),
    ),
    "missing memberships": (
        {"score": SCORE, "member": ["", *IN[1:]]},
        (),
        ("t.csv:2", "a membership is missing", "member"),
    ),
    "missing memberships as nan": (
        {"score": SCORE, "member": ["nan", *IN[1:]]},
        (),
        ("t.csv:2", "a membership is missing", "member"),
    ),
    "missing scores": (
        {"score": ["", *SCORE[1:]], "member": IN},
        (),
        ("t.csv:2", "score is missing", "column score"),
    ),
    "marked what was out": ({"score": SCORE, "is_test": IN}, (), ("is_test", "was out")),
    "scores of two sides": ({"train": SCORE, "test": OTHER}, (), ("--scores1", "train, test")),
    "a title that is a position": (
        {"0": SCORE, "1": OTHER, "2": IN},
        ("--column", "1", "--member", "2"),
        ("--member 2", "the position of another"),
    ),
    "a decimal comma": (
        {"score": ["0,5", *SCORE[1:]], "member": IN},
        (),
        ("t.csv:2", "decimal comma; write 0.5", "score"),
    ),
    "typographic quotes": (
        {"score": ["“0.5”", *SCORE[1:]], "member": IN},
        (),
        ("t.csv:2", "typographic quotes; write 0.5"),
    ),
    "a typographic minus": (
        {"score": ["−0.5", *SCORE[1:]], "member": IN},
        (),
        ("t.csv:2", "typographic minus sign; write -0.5"),
    ),
    "titles in typographic quotes": (
        {"“score”": SCORE, "“member”": IN},
        (),
        ("t.csv:1", "“score”", "typographic quotes"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("slip", REFUSED)
def test_what_is_no_score_or_no_membership_is_refused(slip: str) -> None:
    columns, options, says = REFUSED[slip]
    refused(write("t.csv", **columns), *options, *CLAIM, says=says)


def test_a_repeated_header_and_decimal_commas_between_columns() -> None:
    rows = "\n".join(f"{a},{b},{c}" for a, b, c in zip(SCORE, OTHER, IN, strict=True))
    Path("t.csv").write_text(f"score,score,member\n{rows}\n")
    refused("t.csv", says=("--column", "score, score are both"))
    Path("t.csv").write_text("score,member\n0,5,1\n0,25,0\n")
    refused("t.csv", says=("t.csv:2", "3 columns, and 2 above", "decimal commas"))
    Path("t.csv").write_text("0,5;1\n0,25;0\n")
    refused("t.csv", says=("t.csv:1", "decimal comma; write 0.5"))
    Path("t.csv").write_text("".join(f"{m},{s}\n" for s, m in zip(SCORE, IN, strict=True)))
    refused("t.csv", says=("column 1 could be it: --column 2 --member 1",))


def test_a_header_of_numbers_is_a_header() -> None:
    rows = "\n".join(f"{a},{b}" for a, b in zip(LEAK, IN, strict=True))
    Path("t.csv").write_text(f"0,1\n{rows}\n")
    done = invoke("score", "t.csv", *ASKED)
    assert f"({IN.sum()} in, {N - IN.sum()} out)" in done.stdout


# Two files.


@pytest.mark.parametrize("options", [(), ("--column", "score")])
def test_two_tables_with_memberships_are_refused(options: tuple[str, ...]) -> None:
    write("a.csv", score=OTHER, in_train=IN)
    write("b.csv", score=SCORE, in_train=IN)
    says = ("memberships in column in_train", "TABLE")
    refused("--scores0", "a.csv", "--scores1", "b.csv", *options, *CLAIM, says=says)
    write("a.csv", score=OTHER, in_train=IN * 0 + 1)
    write("b.csv", score=SCORE, in_train=IN * 0)
    refused("--scores0", "a.csv", "--scores1", "b.csv", *options, *CLAIM, says=says)


def test_one_file_for_both_sides_tests_nothing() -> None:
    write("a.csv", score=OTHER)
    write("b.csv", score=OTHER)
    refused("--scores0", "a.csv", "--scores1", "a.csv", *CLAIM, says=("a.csv", "both sides"))
    refused("--scores0", "a.csv", "--scores1", "b.csv", *CLAIM, says=("b.csv and a.csv are equal",))
    with pytest.raises(dpframe.DpframeError, match="equal in every row"):
        dpframe.score(OTHER, OTHER)


def test_an_index_is_no_score_of_one_side() -> None:
    write("a.csv", id=IDS)
    write("b.csv", id=IDS + N)
    says = ("--column", "id is not a score")
    refused("--scores0", "a.csv", "--scores1", "b.csv", *CLAIM, says=says)


@pytest.mark.parametrize("scores", [OTHER * 0, OTHER[:12]])
def test_a_claim_that_these_scores_cannot_refute_is_not_tested(scores: Any) -> None:
    np.save("a.npy", scores)
    np.save("b.npy", scores[::-1])
    words = ("--scores0", "a.npy", "--scores1", "b.npy", *ASKED, "--claim", "epsilon=8")
    done = invoke("score", *words)
    assert done.exit_code == 3, done.output
    assert "! The claim was not tested: " in done.stdout
    assert "not refuted" not in done.stdout


def test_canaries_that_cannot_refute_a_claim_did_not_test_it() -> None:
    np.savez("c.npz", scores=OTHER, members=IN)
    done = invoke("score", "--one-run", "c.npz", "--estimator", "one-run", "--claim", "epsilon=50")
    assert done.exit_code == 3, done.output
    assert "The claim was not tested: even if every guess were right" in done.stdout


def test_scores_that_are_missing_on_one_side_refute_nothing() -> None:
    write("t.csv", score=np.where((IN == 0) & (IDS < 400), np.nan, OTHER), in_train=IN)
    done = invoke("score", "t.csv", *CLAIM)
    lacking = (IN[:400] == 0).sum()
    assert f"! {lacking} scores are NaN (0 in, {lacking} out)" in done.stdout
    assert done.exit_code == 3
    assert "refuted only by scores that are NaN" in done.stdout
    one = invoke("score", "--one-run", "t.csv", "--estimator", "one-run", "--claim", "epsilon=0.5")
    assert one.exit_code == 3, one.output
    write("t.csv", score=np.where((IN == 0) & (IDS < 400), -np.inf, OTHER), in_train=IN)
    assert invoke("score", "t.csv", *CLAIM).exit_code == 1


@pytest.mark.parametrize("times", [2, 4])
def test_repeated_rows_refute_nothing(times: int) -> None:
    few = N // 4
    write("t.csv", score=np.tile(LEAK[:few], times), in_train=np.tile(IN[:few], times))
    done = invoke("score", "t.csv", *CLAIM)
    assert done.exit_code == 3
    assert f"different scores occurs {times} times or more: are rows repeated?" in done.stdout
    one = invoke("score", "--one-run", "t.csv", "--estimator", "one-run", "--claim", "epsilon=0.5")
    assert one.exit_code in (2, 3)  # coins of repeated rows are not fair either
    assert "violated" not in one.stdout


def test_a_few_rows_that_are_not_repeated_hide_no_repeated_ones() -> None:
    few, more = N // 4, [9.0, -9.0]
    write("t.csv", score=[*np.tile(LEAK[:few], 4), *more], in_train=[*np.tile(IN[:few], 4), 1, 0])
    done = invoke("score", "t.csv", *CLAIM)
    assert done.exit_code == 3
    assert "different scores occurs 4 times: are rows repeated?" in done.stdout


def test_memberships_are_not_scores_of_a_side() -> None:
    np.save("s.npy", SCORE)
    np.save("m.npy", IN)
    says = ("m.npy holds only 0 and 1", "--members")
    refused("--scores1", "s.npy", "--scores0", "m.npy", *CLAIM, says=says)
    with pytest.raises(dpframe.DpframeError, match="pass them as members"):
        dpframe.score(SCORE, IN)


def test_sides_of_different_scores_are_refused() -> None:
    write("a.csv", id=IDS, loss=OTHER)
    write("b.csv", id=IDS, confidence=SCORE)
    says = ("column loss", "column confidence", "--column")
    refused("--scores1", "a.csv", "--scores0", "b.csv", *CLAIM, says=says)


def test_a_claim_that_is_a_number_is_named() -> None:
    for claim in (1.0, "epsilon=1"):
        with pytest.raises(dpframe.DpframeError, match=r"pass one, such as dpframe.PureDP"):
            dpframe.score(SCORE, OTHER, claim=claim)


# Estimators and options.


@pytest.mark.parametrize("name", ["precision", "one-run"])
def test_an_estimator_that_does_not_take_scores_says_so(name: str) -> None:
    write("t.csv", score=OTHER, in_train=IN)
    refused("t.csv", "--estimator", name, says=(f"estimator {name!r}: takes", "order-statistics"))


def test_an_estimator_of_two_sides_takes_no_canaries() -> None:
    np.savez("c.npz", scores=OTHER, members=IN)
    says = ("estimator 'order-statistics': takes a score of each run", "'one-run'")
    refused("--one-run", "c.npz", *ASKED, says=says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--epsilon", "1"), "use --claim epsilon=1"),
        (("--epsilon=2.5",), "use --claim epsilon=2.5"),
        (("--eps", "1"), "use --claim epsilon=1"),
        (("--mu", "0.5"), "use --claim mu=0.5"),
        (("--rho", "0.5"), "use --claim rho=0.5"),
        (("--claim", "1"), "use --claim epsilon=1"),
        (("--claim", "eps=1"), "epsilon=1"),
        (("--claim", "epsilon=0,5"), "decimal comma; write epsilon=0.5"),
        (("--claim", "epsilon=1,delta=1,5e-5"), "decimal comma; write delta=1.5e-5"),
        (("--claim", "“epsilon=1”"), "typographic quotes"),
        (("--claim", "epsilon=1,delta=1e−5"), "typographic minus sign"),
        (("--delta", "0,5"), "decimal comma; write 0.5"),
        (("--confidence", "0,95"), "decimal comma; write 0.95"),
        (("--delta", "1e−5"), "typographic minus sign; write 1e-5"),
        (("--label", "in_train"), "--member in_train"),
    ],
)
def test_options_as_people_write_them(words: tuple[str, ...], says: str) -> None:
    write("t.csv", score=OTHER, in_train=IN)
    refused("t.csv", *words, says=(says,))


# Formats.


def same_as_csv(*words: object) -> None:
    write("t.csv", score=LEAK, in_train=IN)
    bounds = []
    for asked in (("t.csv",), words):
        found = json.loads(invoke("score", *asked, *ASKED, "--json").stdout)
        bounds.append(found["rows"][0]["estimate"]["epsilon_lower"])
    assert bounds[0] == bounds[1] > 1


RECORDS = [{"score": s, "in_train": i} for s, i in zip(LEAK.tolist(), IN.tolist(), strict=True)]
FORMATS = {
    "r.json": json.dumps(RECORDS),
    "c.json": json.dumps({"score": LEAK.tolist(), "in_train": IN.tolist()}),
    "p.json": json.dumps(
        {"score": dict(enumerate(LEAK.tolist())), "in_train": dict(enumerate(IN.tolist()))}
    ),
    "s.json": json.dumps(
        {"columns": ["score", "in_train"], "data": [[r["score"], r["in_train"]] for r in RECORDS]}
    ),
    "l.json": json.dumps([[r["score"], r["in_train"]] for r in RECORDS]),
    "t.jsonl": "\n".join(map(json.dumps, [{**r, "label": 1} for r in RECORDS])),
    "t.tsv": "score\tin_train\n" + "\n".join(f"{a}\t{b}" for a, b in zip(LEAK, IN, strict=True)),
}


@pytest.mark.parametrize("name", [*FORMATS, *(f"{name}.gz" for name in FORMATS)])
def test_formats_as_people_have_them(name: str) -> None:
    content = FORMATS[name.removesuffix(".gz")].encode()
    Path(name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    same_as_csv(name)


def test_packed_arrays() -> None:
    for name, save in (("a.npz", np.savez), ("a.npy", np.save)):
        buffer = io.BytesIO()
        if save is np.savez:
            np.savez_compressed(buffer, score=LEAK, in_train=IN, epsilon=1.0, note="x")
        else:
            np.save(buffer, np.stack([LEAK, IN], axis=1))
        Path(name).write_bytes(buffer.getvalue())
        Path(f"{name}.gz").write_bytes(gzip.compress(buffer.getvalue()))
        same_as_csv(name)
        same_as_csv(f"{name}.gz")


def test_memberships_in_a_file_of_their_own() -> None:
    np.save("s.npy", LEAK)
    np.save("m.npy", IN)
    write("m.csv", id=IDS, in_train=IN)
    write("s.csv", id=IDS, score=LEAK)
    for scores, members in (("s.npy", "m.npy"), ("s.npy", "m.csv"), ("s.csv", "m.csv")):
        same_as_csv(scores, "--members", members)
    done = invoke("score", "s.csv", "--members", "m.csv", *ASKED)
    assert "score = column score, membership = column in_train of m.csv (" in done.stdout
    one = invoke("score", "--one-run", "s.csv", "--members", "m.csv", "--estimator", "one-run")
    assert one.exit_code == 0, one.output
    found = dpframe.score("s.csv", members=IN, estimators=[ASKED[1]])
    assert found["scores"]["in"]["scores"] == IN.sum()


def test_memberships_that_do_not_fit_their_scores() -> None:
    np.save("s.npy", LEAK)
    np.save("m.npy", IN[1:])
    refused("s.npy", "--members", "m.npy", says=("600 scores and 599 memberships", "m.npy"))
    write("s.csv", id=IDS, score=LEAK)
    write("m.csv", id=IDS[::-1], in_train=IN)
    refused("s.csv", "--members", "m.csv", says=("s.csv:2", "id is 0, and 599", "m.csv"))
    write("t.csv", score=LEAK, in_train=IN)
    refused("t.csv", "--members", "m.csv", says=("in_train", "leave out --members"))
    write("y.csv", label=CLASS)
    done = invoke("score", "s.npy", "--members", "y.csv", *ASKED)
    assert "! Column label is read as membership, but by its name it is a class" in done.stdout
    refused("s.npy", "--members", "gone.csv", says=("gone.csv: no such file",))
    words = ("--scores0", "s.npy", "--scores1", "m.npy", "--members", "m.csv")
    refused(*words, says=("--members FILE belongs to TABLE",))


def test_scores_of_models_and_points() -> None:
    rng = np.random.default_rng(5)
    members = rng.random((40, 50)) < 0.5
    np.savez("shadow.npz", scores=rng.normal(size=(40, 50)) + 2 * members, members=members)
    options = ["shadow.npz", "--estimator=one-run", "--claim=epsilon=1", "--json"]
    answers = [invoke("score", *options), invoke("score", "--one-run", *options)]
    assert {answer.exit_code for answer in answers} == {1}, answers[0].output
    one, other = ({**json.loads(answer.stdout)["rows"][0], "seconds": 0} for answer in answers)
    assert one == other
    scores = json.loads(answers[0].stdout)["scores"]
    assert (scores["canaries"], scores["runs"]) == (50, 40)
    for flat in (members[:1].repeat(40, axis=0), np.arange(40)[:, None] % 2 + np.zeros((40, 50))):
        np.savez("shadow.npz", scores=rng.normal(size=(40, 50)) + 2 * flat, members=flat)
        refused("shadow.npz", "--claim", "epsilon=1", says=("runs",))
    np.savez("shadow.npz", scores=np.zeros((40, 50)), members=members[:, 0])
    refused("shadow.npz", says=("shape",))


# Files from strangers.

UNPACKED, PEAK = 320 << 20, 200 << 20  # bytes


def bomb(name: str) -> None:
    """Write a small file that unpacks to `UNPACKED` bytes."""
    if name.endswith(".npz"):
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({UNPACKED},), }}"
        header += " " * (63 - (len(header) + 10) % 64) + "\n"
        with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("member.npy", npy(IN))
            with archive.open("score.npy", "w") as file:
                file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little"))
                file.write(header.encode())
                for _ in range(UNPACKED >> 20):
                    file.write(bytes(1 << 20))
    else:  # members of a .gz file follow each other
        row, times = (b'{"":0},', 32) if "json" in name else (b"0,1\n", UNPACKED >> 20)
        rows = gzip.compress(row * ((1 << 20) // len(row)))
        head = gzip.compress(b"[" if "json" in name else b"score,member\n")
        Path(name).write_bytes(head + rows * times)


def npy(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["b.npz", "b.csv.gz", "b.json.gz"])
def test_a_small_file_does_not_take_gigabytes(name: str) -> None:
    bomb(name)
    assert Path(name).stat().st_size < 4 << 20
    tracemalloc.start()
    try:
        says = "has more than" if "json" in name else "unpacks to"
        refused(name, says=(name, says))
        assert tracemalloc.get_traced_memory()[1] < PEAK
    finally:
        tracemalloc.stop()


def test_only_named_arrays_are_loaded() -> None:
    np.savez("a.npz", score=LEAK, in_train=IN, other=np.array([{}], object), wide=np.zeros((3, 3)))
    same_as_csv("a.npz")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "not JSON"),
        ('{"a":' * 100_000, "not JSON"),
        ("[1, [2]]", "not a list of objects"),
        ("3", "not a list of objects"),
        ('{"score": [1], "member": 1}', "'member' is not a list"),
        ('{"score": [1], "member": [1, 0]}', "score has 1, member has 2"),
        ('[{"score": 1, "member": 1}, {"score": 1}]', "row 2: other keys than above: member"),
        ('[{"score": null, "member": 1}]', "row 1: nothing; if a score is missing"),
    ],
)
def test_json_that_is_no_table_is_refused(text: str, says: str) -> None:
    Path("d.json").write_text(text)
    refused("d.json", says=("d.json", says))
