"""The checkpoint on disk: whole or absent, never less than it was, one run at a time."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from support import SPECS, processes
from support.command_line import dpframe

from dpframe.common.files import locked
from dpframe.count import checkpoint
from dpframe.count.checkpoint import WRITE_SECONDS, Saved, Store, write_entries
from dpframe.draw.streams import Stream, digest
from dpframe.errors import OutputError

STREAM, OTHER = Stream(1, "aa", 0, "eval"), Stream(2, "aa", 0, "eval")
LESS = Saved((2, 1), [[[7, 1], [3, 1]]])
MORE = Saved((3, 1), [[[9, 3], [3, 1]]])


def fill(directory: Path) -> Store:
    store = Store(directory)
    store.save(STREAM, "a", LESS)
    store.save(STREAM, "b", MORE)
    store.save(OTHER, "a", MORE)
    store.flush()
    assert store.problem is None
    return store


def entries(directory: Path) -> dict[Any, Saved | None]:
    """Return the content that another process would find."""
    store = Store(directory)
    return {(s.seed, key): store.load(s, key) for s in (STREAM, OTHER) for key in "ab"}


FILLED = {(1, "a"): LESS, (1, "b"): MORE, (2, "a"): MORE, (2, "b"): None}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    fill(tmp_path)
    assert entries(tmp_path) == FILLED
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json"]


def test_without_a_directory_it_stays_in_memory() -> None:
    store = Store()
    store.save(STREAM, "a", LESS)
    store.flush()
    assert store.load(STREAM, "a") == LESS
    assert store.problem is None
    store.clear()
    assert store.load(STREAM, "a") is None


def test_progress_is_never_replaced_by_less(tmp_path: Path) -> None:
    store = fill(tmp_path)
    store.save(STREAM, "b", LESS)
    store.save(STREAM, "a", MORE)
    store.flush()
    assert entries(tmp_path) == {**FILLED, (1, "a"): MORE}
    again = Store(tmp_path)  # not loaded before it saves: it looks at the disk first
    again.save(STREAM, "a", LESS)
    again.flush()
    assert entries(tmp_path) == {**FILLED, (1, "a"): MORE}


def test_an_entry_keeps_its_neighbours(tmp_path: Path) -> None:
    fill(tmp_path)
    store = Store(tmp_path)
    store.save(STREAM, "c", LESS)
    store.flush()
    assert entries(tmp_path) == FILLED
    assert Store(tmp_path).load(STREAM, "c") == LESS


def file_of(directory: Path) -> Path:
    """The file with the entries a and b."""
    (file,) = (
        f for f in directory.glob("*.json") if len(json.loads(f.read_text())["entries"]) == 2
    )
    return file


def signed(content: dict[str, Any]) -> bytes:
    return json.dumps({**content, "digest": digest(content["entries"], 16)}).encode()


DAMAGE = {
    "empty": lambda old: b"",
    "half": lambda old: old[: len(old) // 2],
    "all but one byte": lambda old: old[:-1],
    "zeros": lambda old: bytes(len(old)),
    "a count changed": lambda old: old.replace(b"7", b"8"),
    "a cursor changed": lambda old: old.replace(b"[2,1]", b"[1,1]"),
    "not UTF-8": lambda old: b"\xff\xfe" + old,
    "another schema": lambda old: signed({**json.loads(old), "schema": 99}),
    "not an object": lambda old: b"[]",
    "null": lambda old: b"null",
    "foreign": lambda old: b'{"name": "something else"}',
    "entries of another kind": lambda old: signed({"schema": 1, "entries": []}),
    "an entry of another kind": lambda old: signed({"schema": 1, "entries": {"a": 3}}),
    "an entry without counts": lambda old: signed({"schema": 1, "entries": {"a": [[1]]}}),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_file_that_is_not_whole_is_absent_and_replaced(how: str, tmp_path: Path) -> None:
    fill(tmp_path)
    file = file_of(tmp_path)
    damaged = DAMAGE[how](file.read_bytes())
    assert damaged != file.read_bytes()
    file.write_bytes(damaged)
    assert entries(tmp_path) == {**FILLED, (1, "a"): None, (1, "b"): None}
    store = Store(tmp_path)
    store.save(STREAM, "a", LESS)
    store.flush()
    assert entries(tmp_path) == {**FILLED, (1, "b"): None}


def merged(tmp_path: Path, *shards: dict[str, Saved]) -> dict[str, Saved] | None:
    """Merge shards with these entries in one file each."""
    folders = {number: tmp_path / f"{number}" for number in range(1, len(shards) + 1)}
    (tmp_path / "out").mkdir()
    name = checkpoint.file_of(STREAM)
    for folder, saved in zip(folders.values(), shards, strict=True):
        folder.mkdir()
        write_entries(folder / name, saved)
    checkpoint.merge(folders, len(shards), tmp_path / "out")
    return checkpoint.read_entries(tmp_path / "out" / name)


def part(first: int, stop: int, done: int | None = None, count: int = 1) -> dict[str, Saved]:
    upto = stop if done is None else done
    return {f"a@{first}-{stop}": Saved((upto, upto), [[[count, 0], [0, count]]])}


def test_parts_are_added_up(tmp_path: Path) -> None:
    whole = merged(tmp_path, part(0, 4, count=3), part(4, 6, count=5))
    assert whole == {"a": Saved((6, 6), [[[8, 0], [0, 8]]])}


@pytest.mark.parametrize("order", [1, -1])
def test_of_counts_that_are_no_parts_the_most_are_kept(order: int, tmp_path: Path) -> None:
    shards = [{"rounds-a": LESS}, {"rounds-a": MORE}][::order]
    assert merged(tmp_path, *shards) == {"rounds-a": MORE}


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (part(3, 6), "chunks from 3 on are in two shards"),
        (part(5, 6), "chunks 4 to 4 are in no shard"),
        (part(4, 6, done=5), "shard 2 is not complete"),
        ({}, "chunks from 4 on are in no shard"),
        ({"a@4-6": Saved((6, 6), [[[1, 0]]])}, "impossible counts"),
        ({"a@4-6": Saved((6, 6), [])}, "impossible counts"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    second: dict[str, Saved], says: str, tmp_path: Path
) -> None:
    with pytest.raises(OutputError, match=says):
        merged(tmp_path, part(0, 4), second)


def test_a_directory_in_the_place_of_the_file_is_absent(tmp_path: Path) -> None:
    fill(tmp_path)
    file = file_of(tmp_path)
    file.unlink()
    file.mkdir()
    assert entries(tmp_path)[1, "a"] is None


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


FULL = [(os, "fsync"), (Path, "replace"), (os, "open"), (Path, "mkdir"), (os, "fdopen")]


@pytest.mark.parametrize(("where", "name"), FULL, ids=str)
def test_a_full_disk_is_remembered_and_loses_nothing(
    where: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fill(tmp_path)
    newer = Saved((4, 4), [[[1, 1], [1, 1]]])
    with monkeypatch.context() as patch:
        patch.setattr(where, name, no_space)
        store.save(STREAM, "a", newer)
        store.save(OTHER, "b", newer)
        store.flush()
        assert store.problem is not None
        assert str(tmp_path) in store.problem
        assert "No space left" in store.problem
        assert store.load(STREAM, "a") == newer
        store.flush()
        assert store.problem is not None
    assert entries(tmp_path) == FILLED
    store.flush()
    assert store.problem is None
    assert entries(tmp_path) == {**FILLED, (1, "a"): newer, (2, "b"): newer}


def test_a_write_that_is_cut_short_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kill in the middle of it would: half of the new content lies in the temporary file."""
    store = fill(tmp_path)

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    store.save(STREAM, "a", MORE)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.flush()
    assert entries(tmp_path) == FILLED
    store.flush()
    assert entries(tmp_path) == {**FILLED, (1, "a"): MORE}


class SignalOnce(set[Stream]):
    """A signal arrives when it is first added to."""

    raised = False

    def add(self, stream: Stream) -> None:
        if not self.raised:
            self.raised = True
            raise KeyboardInterrupt
        super().add(stream)


def test_a_signal_while_saving_leaves_nothing_unwritten(tmp_path: Path) -> None:
    """Whatever the store takes for known is on the disk after the next flush."""
    store = Store(tmp_path)
    store._changed = SignalOnce()
    with pytest.raises(KeyboardInterrupt):
        store.save(STREAM, "a", LESS)
    store.save(STREAM, "a", LESS)
    store.flush()
    assert entries(tmp_path)[1, "a"] == LESS


def test_what_is_saved_during_a_write_is_written_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches save in threads of their own while the run writes."""
    store = fill(tmp_path)

    def hurried(file: Path, saved: dict[str, Saved]) -> None:
        for key in saved:  # whoever walks through entries must not meet a new one
            store.save(STREAM, f"{key} again", MORE)
        write_entries(file, saved)

    store.save(STREAM, "a", MORE)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_entries", hurried)
        store.flush()
    store.flush()
    assert Store(tmp_path).load(STREAM, "a") == MORE
    assert Store(tmp_path).load(STREAM, "b again") == MORE


def test_it_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(
        Path, "replace", lambda path, to: (done.append("replace"), replace(path, to))[1]
    )
    store = Store(tmp_path)
    store.save(STREAM, "a", LESS)
    store.flush()
    assert done == ["fsync", "replace"]
    store.flush()  # nothing has changed
    assert len(done) == 2


def test_clear_forgets_in_memory_and_on_disk(tmp_path: Path) -> None:
    store = fill(tmp_path)
    name = file_of(tmp_path).name
    (tmp_path / f".{name}.part").write_text('{"sche')
    (tmp_path / f"{name}.part").write_text("")
    (tmp_path / "lock").touch()
    store.save(OTHER, "b", MORE)
    store.clear()
    store.flush()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert set(entries(tmp_path).values()) == {None}
    assert store.load(OTHER, "b") is None


def test_clear_leaves_what_is_not_of_its_making(tmp_path: Path) -> None:
    """A directory of that name may hold anything, such as the checkpoint of a model."""
    fill(tmp_path)
    ours = file_of(tmp_path).name
    foreign = {
        "config.json": '{"schema":1}',
        "model.json.part": "",
        "weights.json": "[1, 2]",
        f"copy-of-{ours}": '{"schema":1}',
        f"00{ours}": '{"layers": 3}',
    }
    for name, content in foreign.items():
        (tmp_path / name).write_text(content)
    (tmp_path / f"11{ours}").symlink_to(tmp_path / ours)
    (tmp_path / f"22{ours}").mkdir()
    Store(tmp_path).clear()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*foreign, f"11{ours}", f"22{ours}"}


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    precious, checkpoint = tmp_path / "precious", tmp_path / "checkpoint"
    precious.write_text("mine")
    store = fill(checkpoint)
    file = file_of(checkpoint)
    (checkpoint / f".{file.name}.part").symlink_to(precious)
    file.unlink()
    file.symlink_to(precious)
    assert entries(checkpoint)[1, "a"] is None
    store.save(STREAM, "b", Saved((9, 9), [[[1, 1], [1, 1]]]))
    store.flush()
    assert entries(checkpoint)[1, "a"] == LESS
    (checkpoint / "lock").symlink_to(precious)
    with pytest.raises(OutputError, match="a link"), locked(checkpoint):
        pass
    (tmp_path / "elsewhere").symlink_to(checkpoint)
    with pytest.raises(OutputError, match="a link"), locked(tmp_path / "elsewhere"):
        pass
    assert precious.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without pipes")
def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(tmp_path: Path) -> None:
    fill(tmp_path)
    file = file_of(tmp_path)
    file.unlink()
    os.mkfifo(file)
    assert entries(tmp_path)[1, "a"] is None
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(OutputError, match="move it elsewhere"), locked(tmp_path):
        pass


def test_a_write_is_due_after_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("dpframe.count.checkpoint.time.monotonic", lambda: now)
    store = Store()
    assert not store.due
    now = WRITE_SECONDS * 1.01
    assert store.due
    store.flush()
    assert not store.due
    assert WRITE_SECONDS < 5


HOLD = """
import sys
from pathlib import Path
from dpframe.common.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_second_run_in_a_directory_says_so_and_stops(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = ("run", SPECS / "quick.toml", "--out", out)
    with processes.started("-c", HOLD, out / "checkpoint") as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for second in (
            processes.run(*processes.DPFRAME, *run, "--resume"),
            dpframe(*run, "--fresh", cwd=tmp_path),
        ):
            assert second.returncode == 2
            assert second.stderr == f"{out}: another run is using this directory\n"
            assert second.stdout == ""
            assert not (out / "record.json").exists()
        with pytest.raises(OutputError, match="another run is using"), locked(out / "checkpoint"):
            pass
        holder.kill()  # a lock goes with its process, however that ends
        holder.wait()
        with locked(out / "checkpoint"):
            pass


def test_a_lock_is_given_back(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), locked(tmp_path / "new" / "checkpoint"):
            raise ZeroDivisionError


def test_a_place_that_cannot_be_made_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write there"), locked(tmp_path / "file" / "c"):
        pass
