"""Whatever the command line is given: a documented exit code and a message that can be read.

Some dozens of cases by default; `DPFRAME_FUZZ_CLI=100000 pytest tests/cli/test_fuzz.py` tries so
many of each kind, other ones with `DPFRAME_FUZZ_FROM=200000`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import ROOT, damage, mutated_scores
from support.command_line import worked
from support.damage import damaged
from support.mutated_specs import OPTIONS, RAW_VALUES, Mutator
from support.tiers import mostly_slow

from dpframe.draw.streams import digest
from dpframe.results.strict_json import digest_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

TIMES = int(os.environ.get("DPFRAME_FUZZ_CLI", "0"))
FIRST = int(os.environ.get("DPFRAME_FUZZ_FROM", "0"))
PATIENCE = 30
"""Seconds for one case."""

QUICK = ROOT / "specs" / "quick.toml"


def complaints(done: subprocess.CompletedProcess[str], codes: tuple[int, ...] = (0, 2)) -> str:
    """Return the fault in the way a command ended; empty if there is none."""
    printed = done.stdout + done.stderr
    if done.returncode not in codes:
        return f"exit code {done.returncode}: {done.stderr[-2000:]}"
    if "Traceback" in printed or "mistake in dpframe" in printed:
        return done.stderr[-2000:]
    if done.returncode == 2 and not done.stderr.strip():
        return "no message"
    wrong = [line for line in printed.split("\n") if not line.replace("\t", "").isprintable()]
    return repr(wrong[0]) if wrong else ""


def tried(words_of: Callable[[int], tuple[Any, ...]], directory: Path, times: int) -> list[int]:
    """Runs the commands of so many numbers; their exit codes, if nothing is wrong with any."""
    codes, failures = [], []
    for number in range(FIRST, FIRST + times):
        words = words_of(number)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            done = worked(*words, cwd=directory)
        except Exception as error:
            failures.append((number, words, f"{type(error).__name__}: {error}"))
            continue
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        codes.append(done.returncode)
        if wrong := complaints(done):
            failures.append((number, words, wrong))
    assert failures[:10] == []
    return codes


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def give_up(*_: Any) -> None:
        raise TimeoutError(f"a case took more than {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=[TIMES or 8, pytest.param(TIMES or 120, marks=pytest.mark.slow)])
def times(request: pytest.FixtureRequest) -> int:
    """The number of cases of each kind."""
    return int(request.param)


@pytest.fixture(scope="module")
def mutator() -> Mutator:
    texts = [file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("specs/**/*.toml"))]
    return Mutator(texts)


@pytest.mark.parametrize("command", [("check",), ("plan",)], ids=lambda c: c[0])
def test_any_spec(command: tuple[str, ...], mutator: Mutator, tmp_path: Path, times: int) -> None:
    def words_of(number: int) -> tuple[Any, ...]:
        case = mutator.case(number)
        (tmp_path / "spec.toml").write_bytes(case.content)
        words: list[Any] = [*command, "spec.toml"]
        for option, value in (("--trials", case.trials), ("--seed", case.seed)):
            words += [] if value is None else [option, value]
        for override in case.overrides:
            words += ["--set", override.replace("\0", "")]  # no system hands that over
        return tuple(words)

    codes = tried(words_of, tmp_path, times)
    assert codes.count(2) > times / 3


def test_any_override_of_a_right_spec(tmp_path: Path, times: int) -> None:
    shutil.copy(QUICK, tmp_path / "spec.toml")

    def words_of(number: int) -> tuple[Any, ...]:
        rng = random.Random(number)
        words = [rng.choice(("check", "check", "check", "plan")), "spec.toml"]
        for _ in range(rng.choice((1, 1, 2, 3))):
            value = rng.choice(RAW_VALUES).replace("\0", "")
            words += ["--set", f"{rng.choice(OPTIONS)}={value}"]
        return tuple(words)

    codes = tried(words_of, tmp_path, times)
    assert codes.count(0) > times / 100
    assert codes.count(2) > times / 3


def test_any_record(tmp_path: Path, times: int) -> None:
    """Shown, compared as if it were a spec, and found where a run should leave its own."""
    shutil.copy(QUICK, tmp_path / "spec.toml")
    run = ("run", "spec.toml", "--trials", 100, "--set", "pair.dim=1", "--set", "run.chunk=128")
    run += ("--set", "mechanism.epsilon=1.0", "--out", ".", "--quiet")
    done = worked(*run, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    whole = (tmp_path / "record.json").read_text(encoding="utf-8")
    taken: list[tuple[Any, ...]] = [
        ("show", "."),
        ("show", "record.json", "--json"),
        ("show", "record.json", "--numbers", "--notes"),
        ("compare", "record.json", "--quiet"),
        ("check", "record.json"),
    ]

    def words_of(number: int) -> tuple[Any, ...]:
        rng = random.Random(number)
        (tmp_path / "record.json").write_bytes(damaged(whole, rng))
        return rng.choice(taken)

    codes = tried(words_of, tmp_path, times)
    assert codes.count(2) > times / 2
    for number in range(FIRST, FIRST + max(1, times // 30)):
        (tmp_path / "record.json").write_bytes(damaged(whole, random.Random(number)))
        assert not complaints(worked(*run, cwd=tmp_path), (0, 1, 2)), number


LARGE: tuple[Any, ...] = (
    None, True, "x", 1.5, -1, 10**30, 10**400, 2**62, 2**63, [], [[1], [1, 2]], [None], {},
    json.loads("[" * 180 + "1" + "]" * 180),
)  # fmt: skip


def changed(content: Any, rng: random.Random) -> Any:
    """JSON values after one or two of them were replaced by what nobody expects, or removed."""
    found = json.loads(json.dumps(content))
    for _ in range(rng.choice((1, 1, 2))):
        places = [place for place in damage.places(found) if len(place) < 20]
        if not places:
            return rng.choice(LARGE)
        depth = rng.randint(1, max(map(len, places)))
        place = rng.choice([place for place in places if len(place) <= depth])
        if rng.random() < 0.15:
            del damage.value_at(found, place[:-1])[place[-1]]
        else:
            damage.put(found, place, rng.choice(LARGE))
    return found


def signed(text: str, rng: random.Random) -> str:
    """A record, or what describes a shard, changed by somebody who worked out its digest anew."""
    found = changed(json.loads(text), rng)
    if isinstance(found, dict):
        found["digest"] = digest_of(found)
    return json.dumps(found)


def stored(text: str, rng: random.Random) -> str:
    """Counts of a checkpoint, changed likewise."""
    entries = changed(json.loads(text)["entries"], rng)
    return json.dumps({"schema": 1, "digest": digest(entries, 16), "entries": entries})


def noted(text: str, rng: random.Random) -> str:
    """The first line of a ledger, changed likewise."""
    return json.dumps(changed(json.loads(text.split("\n", maxsplit=1)[0]), rng)) + "\n"


def test_any_file_that_somebody_signed(tmp_path: Path, times: int) -> None:
    """Records, ledgers, checkpoints and shards: refused or counted as absent, never believed."""
    shutil.copy(QUICK, tmp_path / "spec.toml")
    run = ("run", "spec.toml", "--trials", 600, "--set", "pair.dim=1", "--set", "run.chunk=128")
    run += ("--set", "mechanism.epsilon=1.0", "--quiet", "--out")
    assert worked(*run, "run", cwd=tmp_path).returncode in (0, 1)
    for number in (1, 2):
        shard = ("--shard", f"{number}/2")
        assert worked(*run, f"p{number}", *shard, cwd=tmp_path).returncode == 0
    shutil.copytree(tmp_path / "run", tmp_path / "old")
    record, looks = tmp_path / "run" / "record.json", tmp_path / "run" / "looks.jsonl"
    counts = sorted((tmp_path / "run" / "checkpoint").glob("*.json"))
    shards = sorted(tmp_path.glob("p?/shard.json")), sorted(tmp_path.glob("p?/checkpoint/*.json"))
    whole = {file: file.read_text() for file in (record, looks, *counts, *shards[0], *shards[1])}

    def answers() -> Any:
        return [
            (cell["counts"], cell["p_value"], cell["verdict"])
            for cell in json.loads(record.read_text())["cells"]
        ]

    wanted = answers()
    for number in range(FIRST, FIRST + max(2, times // 8)):
        rng, wrong = random.Random(number), []
        record.write_text(signed(whole[record], rng))
        words = [("show", "run"), ("diff", "old", "run"), ("report", "run", "-o", "x.html")]
        wrong += [complaints(worked(*rng.choice(words), cwd=tmp_path), (0, 1, 2))]
        record.unlink()
        for file in counts:
            file.write_text(stored(whole[file], rng))
        wrong += [complaints(worked(*run, "run", cwd=tmp_path), (0, 1))]
        assert answers() == wanted, number
        record.unlink()
        looks.write_text(noted(whole[looks], rng))
        wrong += [complaints(worked(*run, "run", cwd=tmp_path), (0, 1))]
        looks.write_text(whole[looks])
        for files, change in zip(shards, (signed, stored), strict=True):
            file = rng.choice(files)
            file.write_text(change(whole[file], rng))
            merge = ("merge", "p1", "p2", "--out", "merged", "--quiet")
            wrong += [complaints(worked(*merge, cwd=tmp_path), (0, 1, 2))]
            file.write_text(whole[file])
            shutil.rmtree(tmp_path / "merged", ignore_errors=True)
        assert not any(wrong), (number, [one for one in wrong if one])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run."""
    folder = tmp_path_factory.mktemp("small")
    words = ("--trials", 100, "--set", "pair.dim=1", "--set", "run.chunk=128", "--quiet")
    words += ("--set", "mechanism.epsilon=1.0", "--out", "run")
    assert worked("run", QUICK, *words, cwd=folder).returncode in (0, 1)
    return folder / "run"


@pytest.mark.parametrize(
    ("place", "value"),
    mostly_slow(
        [
            (("claim", "parameters", "epsilon"), 10**400),
            (("estimate", "wealth"), [[10**400, 1.0], [10**401, 1.0]]),
            (("statistic", "name"), 10**400),
            (("counts", 0), [10**400, 1]),
        ],
        (0,),
    ),
    ids=lambda part: ".".join(map(str, part)) if isinstance(part, tuple) else "",
)
def test_numbers_beyond_all_floats_in_a_record(
    place: tuple[Any, ...], value: Any, small: Path, tmp_path: Path
) -> None:
    for name in ("run", "old"):
        shutil.copytree(small, tmp_path / name)
    file = tmp_path / "run" / "record.json"
    content = json.loads(file.read_text())
    for cell in content["cells"]:
        damage.put(cell, place, value)
    file.write_text(json.dumps({**content, "digest": digest_of(content)}))
    done = worked("show", "run", cwd=tmp_path)
    assert not complaints(done)
    for words in (("diff", "old", "run"), ("report", "run", "-o", "x.html")):
        if done.returncode == 0:  # else it is read in the same way, and refused
            assert not complaints(worked(*words, cwd=tmp_path), (0, 1))


def test_any_scores(tmp_path: Path, times: int) -> None:
    np.save(tmp_path / "out.npy", np.random.default_rng(0).normal(size=20))

    def words_of(number: int) -> tuple[Any, ...]:
        file = mutated_scores.case(number)
        (tmp_path / file.name).write_bytes(file.content)
        sides = ["--in", file.name, "--out", "out.npy"]
        if number % 2:
            sides = ["--out", file.name, "--in", "out.npy"]
        return ("score", *sides, "--estimator", "order-statistics", *["--json"][: number % 3])

    codes = tried(words_of, tmp_path, times)
    assert codes.count(0) > times / 100
    assert codes.count(2) > times / 3


def test_what_is_printed_as_json_is_json(tmp_path: Path) -> None:
    """Hostile names and all."""
    for seed, name in enumerate(("in\x1b[31m.npy", "out\u202e.npy")):
        np.save(tmp_path / name, np.random.default_rng(seed).normal(size=20))
    words = ("score", "--in", "in\x1b[31m.npy", "--out", "out\u202e.npy", "--json")
    done = worked(*words, "--estimator", "order-statistics", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["in"]["name"] == "in\x1b[31m.npy"
    assert "\x1b" not in done.stdout
