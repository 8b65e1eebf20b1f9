"""A search of a black box that is interrupted goes on with the answers that it has."""

from __future__ import annotations

import base64
import json
import math
import random
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.searches import Three, spec
from support.tiers import mostly_slow

from dpframe import HostMechanism, PureDP
from dpframe.commands.audit import load, make_plan
from dpframe.count.checkpoint import Saved, Store
from dpframe.count.kept_answers import AnswerFile, AnswerFiles, KeptChoices, KeptRound, _line
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.requests import RunCancelled
from dpframe.draw.scheduling import Clock
from dpframe.draw.streams import Stream, digest
from dpframe.engine.run import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dpframe.results.model import CellRecord

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")

TRIALS = 2_000


class Noisy(HostMechanism):
    """Keeps its claim."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def release(self, rng: np.random.Generator, data: Any) -> float:
        return float(np.sum(data) + rng.laplace(scale=3.0))


class Seeded(Noisy, name="seeded"):
    """Repeatable."""


class Unseeded(Noisy, name="unseeded"):
    """The same, with randomness of its own."""

    seedable = False

    def release(self, rng: np.random.Generator, data: Any) -> float:
        return super().release(np.random.default_rng(), data)


class Killed(InProcessWorkers):
    """Draws in this process, until it is killed."""

    def __init__(self, after: float = np.inf) -> None:
        super().__init__()
        self.after = after

    def lend(self, *args: Any) -> Any:
        if self.calls > self.after:
            raise KeyboardInterrupt
        return super().lend(*args)


def searched(name: str, store: Store, after: float = np.inf) -> tuple[CellRecord, int]:
    """The result, and how many releases it took."""
    document = spec({"use": name}, trials=TRIALS)
    del document["attack"], document["run"]
    source = Killed(after)
    loaded = load(document, plugins=[Three, Seeded, Unseeded])
    (result,) = run(make_plan(loaded, source), source=source, store=store, threads=1)
    return result, source.calls


class StoppedSource(Killed):
    """Is stopped from outside."""

    def lend(self, *args: Any) -> Any:
        if self.calls > self.after:
            raise RunCancelled
        return super().lend(*args)


def test_a_search_whose_workers_are_stopped_fails_and_does_not_wait() -> None:
    document = spec({"use": "seeded"}, trials=TRIALS)
    del document["attack"], document["run"]
    source = StoppedSource(500)
    loaded = load(document, plugins=[Three, Seeded, Unseeded])
    (result,) = run(make_plan(loaded, source), source=source, store=Store(), threads=1)
    assert result.reason is not None
    assert "stopped" in result.reason


def shown(result: CellRecord) -> list[Any]:
    assert result.reason is None, result.reason
    found = result.estimate
    assert found is not None
    return [found.wealth, found.epsilon, found.epsilon_lower, result.search, result.counts]


@pytest.fixture(scope="module")
def whole() -> tuple[CellRecord, int]:
    return searched("seeded", Store())


@pytest.mark.parametrize("damage", mostly_slow([0, 300], [1]))
def test_it_ends_as_one_that_was_not_interrupted(
    whole: tuple[CellRecord, int], tmp_path: Path, damage: int
) -> None:
    made = 0
    for after in (500, 1_200):
        with pytest.raises(KeyboardInterrupt):
            searched("seeded", Store(tmp_path), after)
        made = after
        (largest,) = sorted(tmp_path.glob("*.answers"), key=lambda f: f.stat().st_size)[-1:]
        if damage:  # as if it had been killed while it wrote
            largest.write_bytes(largest.read_bytes()[:-damage])
    result, calls = searched("seeded", Store(tmp_path))
    assert shown(result) == shown(whole[0])
    if not damage:
        assert calls < whole[1] - made / 4


@pytest.mark.slow
def test_what_cannot_be_drawn_again_is_not_lost(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        searched("unseeded", Store(tmp_path), 1_200)
    kept = {file: file.read_bytes() for file in tmp_path.glob("*.answers")}
    assert sum(map(len, kept.values())) > 1_000
    result, calls = searched("unseeded", Store(tmp_path))
    assert calls + 1_000 < sum(result.trials)
    for file, content in kept.items():  # it has gone on behind what there was
        assert file.read_bytes().startswith(content)
    again, _ = searched("unseeded", Store(tmp_path))
    assert shown(again) == shown(result)
    assert shown(searched("unseeded", Store())[0]) != shown(result)


def test_they_go_with_the_record_and_with_a_fresh_start(tmp_path: Path) -> None:
    for forget in (Store.drop_answers, Store.clear):
        with pytest.raises(KeyboardInterrupt):
            searched("seeded", Store(tmp_path), 500)
        (tmp_path / "mine.answers").write_text("not of a run")
        assert len(list(tmp_path.glob("*.answers"))) > 1
        forget(Store(tmp_path))
        assert [file.name for file in tmp_path.glob("*.answers")] == ["mine.answers"]


def rounds(rows: int) -> Iterator[KeptRound]:
    for number in range(4):
        sides = [np.full((rows, 4), number * 10 + side, np.uint64) for side in (1, 2)]
        yield KeptRound((sides[0], sides[1]), {None, (2,)}, bool(number), {}, ([1e-3], [2e-3, 0.5]))


def test_a_file_gives_what_it_got_as_far_as_there_is_room(tmp_path: Path) -> None:
    file = tmp_path / "a.answers"
    kept = AnswerFile(file, [300])
    for number, one in enumerate(rounds(8)):
        kept.save(number, number + 1, one, {1: "number", 10: "other", 3: "unknown"})
    again = AnswerFile(file, [300])
    first = again.load(0, 1, 8)
    assert first is not None
    assert (first.natives, first.one, first.words) == ({None, (2,)}, False, {1: "number"})
    assert first.durations == ([1e-3], [2e-3, 0.5])
    assert first.sides[0].dtype == np.uint64
    assert first.sides[1].tolist() == [[2, 2, 2, 2]] * 8
    assert again.load(0, 2, 16) is None
    assert [again.load(n, n + 1, 8) is not None for n in range(4)] == [True, True, False, False]
    assert AnswerFiles(None).of(None, None).load(0, 1, 8) is None  # type: ignore[arg-type]


FIELDS = ("chunks", "rows", "natives", "one", "words", "durations", "answers")


def strange(choice: random.Random, depth: int = 0) -> Any:
    """Any JSON value: of a wrong type, empty, huge, nested or nearly right."""
    if depth > 3 or choice.random() < 0.7:
        of = [None, True, -1, 0, 8, 2**64, 10**30, 1e999, -0.5, math.nan, "", "8", "!", "AAAA", "é"]
        return choice.choice(of)
    inner = [strange(choice, depth + 1) for _ in range(choice.randrange(4))]
    return inner if choice.random() < 0.6 else {str(one): one for one in inner}


def signed(content: Any) -> str:
    text = json.dumps(content)
    return f"{text}\t{digest(text, 16)}\n"


def forgeries(number: int) -> Iterator[str]:
    """Lines with right digests whose content an attacker chose."""
    choice = random.Random(7)
    (one, *_) = rounds(8)
    true = json.loads(_line(0, 1, one).rpartition("\t")[0])
    short, bomb = (
        base64.b64encode(data).decode() for data in (b"x", zlib.compress(bytes(1 << 20)))
    )
    wide = {**true, "answers": base64.b64encode(zlib.compress(bytes(8 * 16 * 2))).decode()}
    yield from map(signed, (wide, {**true, "answers": short}, {**true, "answers": bomb}, [], 7))
    yield signed([]).replace("[]", "[" * 5_000 + "]" * 5_000)
    for _ in range(number):
        wrong = {**true, choice.choice(FIELDS): strange(choice)}
        if choice.random() < 0.2:
            wrong.pop(choice.choice(FIELDS))
        yield signed(wrong if choice.random() < 0.95 else strange(choice))


def test_forged_answers_are_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a right digest too: no error, and nothing that is not a round of so many answers."""
    monkeypatch.setattr("dpframe.count.kept_answers.MOST_ROUND_BYTES", 1 << 16)
    file = tmp_path / "a.answers"
    taken = 0
    for line in forgeries(300):
        file.write_text(line, encoding="utf-8")
        found = AnswerFile(file, [1 << 20]).load(0, 1, 8)
        if found is None:
            continue
        taken += 1
        assert [side.shape for side in found.sides] == [(8, 4)] * 2
        assert all(0 <= pace < math.inf for told in found.durations for pace in told)
        assert all(isinstance(text, str) for text in found.words.values())
    assert 0 < taken < 100  # a changed field may be right by chance, such as an empty list


@pytest.mark.slow
def test_a_search_ends_the_same_beside_forged_files(
    whole: tuple[CellRecord, int], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        searched("seeded", Store(tmp_path), 1_200)
    lines = list(forgeries(100))
    for number, file in enumerate(sorted(tmp_path.glob("*.answers"))):
        file.write_text(lines[number % len(lines)], encoding="utf-8")
    for number, file in enumerate(sorted(tmp_path.glob("*.json"))):
        content = json.loads(file.read_text(encoding="utf-8"))
        for entry in content["entries"].values():
            entry[1] = [None, ["a"], [-1, 3], [2**70], [math.nan], [1e999]][number % 6]
        content["digest"] = digest(content["entries"], 16)
        file.write_text(json.dumps(content), encoding="utf-8")
    assert shown(searched("seeded", Store(tmp_path))[0]) == shown(whole[0])


@pytest.mark.parametrize("leaves", [["a"], [-1], [3], [True], [2**70], [[8]], [8.0], None, [8, 5]])
def test_forged_sizes_of_looks_are_chosen_again(leaves: Any) -> None:
    store, stream = Store(), Stream(0, "a" * 8, 0, "eval")
    store.save(stream, "looks-one", Saved((1, 1), leaves or []))
    forged, fresh = (KeptChoices(s, stream, "one", Clock(None), None) for s in (store, Store()))
    assert forged.look(100, 100) == fresh.look(100, 100)


@pytest.mark.parametrize("leaves", [["a"], [-1.0], [math.nan], [math.inf], [], [2**70], [[8.0]]])
def test_forged_seconds_of_a_search_are_not_taken(leaves: Any) -> None:
    store, stream, clock = Store(), Stream(0, "a" * 8, 0, "eval"), Clock(60.0)
    store.save(stream, "spent-one", Saved((5, 5), leaves))
    KeptChoices(store, stream, "one", clock, 60.0).note_time(0)
    assert clock.left() == pytest.approx(60.0, abs=1.0)
