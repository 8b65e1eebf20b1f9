"""Certificates that leave something out, or contradict themselves, are no success."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certcheck
import jax
import numpy as np
import pytest
from certify_support.certificates import CHECKER, GIVEN, certify, code, first, spec, written

import dpframe
from dpframe import PureDP
from dpframe.plugins import Mechanism
from dpframe.results.store import dumps

Place = tuple[str | int, ...]


class TwoSteps(Mechanism, name="two-steps"):
    """Laplace noise for two steps of ε each."""

    epsilon: float = 0.5

    def claim(self, pair: Any) -> PureDP:
        return PureDP(2 * self.epsilon)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return jax.random.laplace(key, (n, 1)) / (2 * self.epsilon) + data[:1]


def certified(folder: Path, **contents: Any) -> dict[str, Any]:
    """Return a certificate that the command writes."""
    told = {**spec(GIVEN, {"use": "order-statistics"}, trials=300), **contents}
    return certified_by_command(folder, dpframe.audit(told, plugins=[TwoSteps]).as_json())


def certified_by_command(folder: Path, record: Any) -> dict[str, Any]:
    (folder / "record.json").write_text(json.dumps(record))
    assert certify(folder, folder / "cert.json").exit_code == 0
    found: dict[str, Any] = json.loads((folder / "cert.json").read_text())
    return found


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return certified(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a certificate of few trials, which is checked fast and decides nothing."""
    contents = spec(GIVEN, trials=4)
    return certified(tmp_path_factory.mktemp("few"), **contents)


def without(verdict: str, failed: int | None = None) -> Any:
    def change(c: Any) -> None:
        kept = [one for one in c["conclusions"] if one["verdict"] != verdict]
        assert 0 < len(kept) < len(c["conclusions"])
        if failed is not None:
            c["failed"] = len(c["conclusions"]) - len(kept)
        c["conclusions"] = kept

    return change


def as_if_never_planned(c: Any) -> None:
    without("violated")(c)
    c["audit"]["m"] = c["summary"]["m"] = len(c["conclusions"])
    c["summary"]["violated"] = 0


def halved(c: Any) -> None:
    claim = c["conclusions"][-1]["claim"]["parameters"]
    claim["epsilon"] *= 0.999


def doubled(c: Any) -> None:
    for name in ("claim", "mechanism"):
        table = c["conclusions"][-1][name]
        table.get("parameters", table.get("params"))["epsilon"] *= 2


def another_spec(c: Any) -> None:
    c["spec"]["text"] = c["spec"]["text"].replace("certified", "other")


def another_spec_and_digest(c: Any) -> None:
    another_spec(c)
    c["spec"]["sha256"] = hashlib.sha256(c["spec"]["text"].encode()).hexdigest()


SLIPS: dict[str, Any] = {
    "violated conclusions are deleted": without("violated"),
    "and counted as failed": without("violated", failed=0),
    "and never planned": as_if_never_planned,
    "a cell failed": lambda c: (
        c.update(failed=1),
        c["audit"].update(m=7),
        c["summary"].update(m=7),
    ),
    "a failed cell had no claim": lambda c: c.update(failed=1),
    "the claim is halved": halved,
    "the claim is another one": doubled,
    "looks": lambda c: c["audit"].update(looks=7),
    "no looks": lambda c: c["audit"].pop("looks"),
    "no correction": lambda c: c["audit"].update(multiplicity="none"),
    "another correction": lambda c: c["audit"].update(multiplicity="bonferroni"),
    "a seed that is NaN": lambda c: first(c).update(seed=math.nan),
    "a seed that is infinite": lambda c: first(c).update(seed=math.inf),
    "another seed": lambda c: first(c).update(seed=5),
    "no seed": lambda c: first(c).pop("seed"),
    "a repeat": lambda c: first(c).update(repeat=1),
    "another name": lambda c: c["audit"].update(name="other"),
    "another m": lambda c: c["audit"].update(m=7),
    "m in both places": lambda c: (c["audit"].update(m=7), c["summary"].update(m=7)),
    "more violations in the summary": lambda c: c["summary"].update(violated=4),
    "fewer violations in the summary": lambda c: c["summary"].update(violated=0),
    "no summary": lambda c: c.pop("summary"),
    "no spec": lambda c: c.update(spec={}),
    "no text of the spec": lambda c: c["spec"].pop("text"),
    "the text of another spec": another_spec,
    "the text of another spec with its digest": another_spec_and_digest,
    "an override": lambda c: c["spec"]["overrides"].append("audit.confidence=0.5"),
    "another mechanism": lambda c: first(c)["mechanism"].update(use="laplace"),
    "another attack": lambda c: first(c)["attack"].update(use="majority-vote"),
    "another threshold": lambda c: [
        one["estimator"]["params"].update(threshold=0.7)
        for one in c["conclusions"]
        if one["estimator"]["use"] == "threshold"
    ],
    "no parameters": lambda c: first(c)["mechanism"].update(params={}),
    "a design twice": lambda c: ranked(c)["design"].append(ranked(c)["design"][0]),
    "no design": lambda c: ranked(c).update(design=[]),
    "another rank": lambda c: ranked(c)["design"].__setitem__(
        slice(None), [[row[0] + 1, *row[1:]] for row in ranked(c)["design"]]
    ),
}


def ranked(c: Any) -> Any:
    evidences = (one["estimate"]["evidence"] for one in c["conclusions"])
    return next(each for each in evidences if each["theorem"] == "joint")


@pytest.mark.parametrize("name", SLIPS)
def test_a_certificate_with_a_slip_is_no_success(
    sound: dict[str, Any], tmp_path: Path, name: str
) -> None:
    assert {one["verdict"] for one in sound["conclusions"]} == {"violated", "consistent"}
    contents = copy.deepcopy(sound)
    SLIPS[name](contents)
    assert code(written(contents), tmp_path) in (1, 3)


def test_it_says_what_is_certified(
    sound: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code(written(sound), tmp_path) == 0
    said = capsys.readouterr().out
    violated = sum(one["verdict"] == "violated" for one in sound["conclusions"])
    counts = f"{violated} violated, {6 - violated} not refuted, 0 inconclusive, 0 without a claim"
    assert f"{counts}; m = 6, 0 failed" in said
    assert "confidence 0.95, multiplicity holm, looks 1" in said
    assert f"spec '{sound['spec']['sha256']}'" in said
    assert "\nnot signed\n" in said
    (tmp_path / "cert.json.sig").touch()
    assert code(written(sound), tmp_path) == 0
    assert "signature in 'cert.json.sig', not checked here" in capsys.readouterr().out


def test_it_lists_what_is_missing(
    sound: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = copy.deepcopy(sound)
    without("violated", failed=0)(contents)
    assert code(written(contents), tmp_path) == 3
    said = capsys.readouterr().out
    assert "FAILED: " in said
    assert "conclusions, violated" in said
    as_if_never_planned(contents := copy.deepcopy(sound))
    assert code(written(contents), tmp_path) == 3
    assert "MISSING: conclusions with 0." in capsys.readouterr().out


def test_a_right_claim_may_be_unlike_the_parameter_of_its_mechanism(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = certified(
        tmp_path, **{**spec(GIVEN, trials=300), "mechanism": [{"use": "two-steps"}]}
    )
    capsys.readouterr()
    assert code(written(contents), tmp_path) == 0
    one = first(contents)
    said = f"UNLIKE: {one['id']} claims epsilon = 1.0, its mechanism 0.5\n"
    assert said in capsys.readouterr().out
    for change in (
        lambda c: first(c)["claim"]["parameters"].update(epsilon=0.5),
        lambda c: first(c)["claim"]["parameters"].update(epsilon=2.0),
        lambda c: first(c)["claim"].pop("unlike"),
        lambda c: first(c)["claim"].update(unlike={}),
        lambda c: first(c)["claim"]["unlike"].update(epsilon=[1.0, 1.0]),
        lambda c: first(c)["claim"]["unlike"].update(epsilon=[2.0, 0.5]),
        lambda c: first(c)["claim"]["unlike"].update(delta=[0.0, 0.0]),
        lambda c: first(c)["mechanism"]["params"].update(epsilon=0.25),
    ):
        altered = copy.deepcopy(contents)
        change(altered)
        assert code(written(altered), tmp_path) in (1, 3)


def test_claims_of_builtin_mechanisms_are_never_unlike_their_parameters(
    sound: dict[str, Any], tmp_path: Path
) -> None:
    contents = copy.deepcopy(sound)
    claim = contents["conclusions"][-1]["claim"]
    claim["unlike"] = {"epsilon": [0.999, 1.0]}
    claim["parameters"]["epsilon"] = 0.999
    assert code(written(contents), tmp_path) in (1, 3)


def test_certificates_of_scores_are_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    members = np.arange(300) % 2 < 1
    scores = 3.0 * members + np.random.default_rng(4).normal(size=300)
    answer = dpframe.score_one_run(scores, members, claim=PureDP(0.5), lower_is_member=False)
    contents = certified_by_command(tmp_path, json.loads(dumps(answer)))
    capsys.readouterr()
    assert code(written(contents), tmp_path) == 0
    assert "1 violated, 0 not refuted" in capsys.readouterr().out
    contents["conclusions"].pop()
    assert code(written(contents), tmp_path) in (1, 3)


@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_help_helps(words: list[str]) -> None:
    call = [sys.executable, "-I", "-S", CHECKER, *words]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "python certcheck.py CERT.json" in done.stdout
    assert "Exit code: 0 if " in done.stdout
    call = [sys.executable, "-I", "-S", CHECKER, "one", "two"]
    assert subprocess.run(call, capture_output=True, check=False).returncode == 2


def test_extreme_counts_must_have_the_ranks_of_their_events(tmp_path: Path) -> None:
    """Counts below a rank would make an inconclusive claim look like one that was tested."""
    contents = certified(tmp_path, **spec({"use": "order-statistics"}, trials=9))
    one = next(one for one in contents["conclusions"] if one["verdict"] == "inconclusive")
    whole = contents["conclusions"]
    contents["conclusions"] = [*(o for o in whole if o is not one), one]
    one["verdict"] = "consistent"
    for name in ("inconclusive", "consistent"):
        verdicts = [each["verdict"] for each in whole]
        contents["summary"][name] = verdicts.count(name)
    spent = sum(row[5] for row in one["estimate"]["evidence"]["terms"])
    one["basis"]["extreme"]["terms"] = [[0, 9, 9, 9, 0.9, 1 - spent]]
    assert code(written(contents), tmp_path) == 1


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    for key in value if isinstance(value, dict) else range(len(value)):
        yield (*at, key)
        if isinstance(value[key], dict | list):
            yield from places(value[key], (*at, key))


def others(value: Any) -> list[Any]:
    if isinstance(value, bool | str) or value is None:
        return [0, "other", []]
    if isinstance(value, int | float):
        return [value + 1, value * 1.5 + 1e-4, -value - 1, math.nan, "1", None]
    return [[], {}, [*value, *list(value)[:1]]]


FREE = {
    *("environment", "environments", "plugins", "record", "digest", "id", "draw_group"),
    *("assumption", "profile", "relation", "needs", "pair", "terms", "resolution", "sensitivity"),
    *("direction", "limits", "design"),
}
"""Fields that name something elsewhere, that are not stated twice, or whose change may leave a
conclusion right."""


def test_every_other_field_is_compared(few: dict[str, Any], tmp_path: Path) -> None:
    """Alter and delete each field, one at a time."""
    assert code(written(few), tmp_path) == 0
    kept = [place for place in places(few) if not {*place} & FREE]
    kept = [
        place
        for place in kept
        if place[:2] in [("conclusions", 0), place[:1]] or place[0] != "conclusions"
    ]
    assert len(kept) > 40
    for place in kept:
        holder = few
        for key in place[:-1]:
            holder = holder[key]
        value = holder[place[-1]]
        for changed in [None, *others(value)]:
            altered: Any = copy.deepcopy(few)
            holder = altered
            for key in place[:-1]:
                holder = holder[key]
            if changed is None:
                del holder[place[-1]]
            else:
                holder[place[-1]] = changed
            assert altered == few or code(written(altered), tmp_path) in (1, 3), (place, changed)


HOSTILE = [
    *("", "{}", "[]", "null", "3", "\x00", "[" * 100_000, '{"certificate":1}'),
    *('{"certificate":1,"digest":"","conclusions":[]}', '{"a":NaN}', '{"a":1e400}'),
    lambda text: text[: len(text) // 2],
    lambda text: text.replace('"m":', '"m":6,"m":', 1),
    *(
        lambda text, value=value: text.replace('"failed":0', f'"failed":{value}')
        for value in ("9" * 5000, "[" * 50_000 + "]" * 50_000, "1e-999999999", "NaN", "-0")
    ),
    lambda text: text + " ",
    lambda text: text.replace(":", ": ", 1),
    lambda text: text.replace("\n", "\r\n"),
]


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_hostile_files_are_refused_in_a_line(
    sound: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], at: int
) -> None:
    change: Any = HOSTILE[at]
    file = tmp_path / "cert.json"
    file.write_bytes((change(written(sound)) if callable(change) else change).encode())
    assert certcheck.main([str(file)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("REFUSED: ")
    assert said.count("\n") == 1
