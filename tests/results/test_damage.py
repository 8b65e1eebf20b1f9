"""Records that were damaged: never a traceback, never a change of what decides that is taken in."""

from __future__ import annotations

import contextlib
import json
import os
import random
from pathlib import Path

from support.command_line import dpframe
from support.damage import damaged

from dpframe.errors import RecordError
from dpframe.results.model import Record
from dpframe.results.store import dumps, load
from dpframe.results.strict_json import digest_of
from dpframe.results.verdict import judged, totals

TIMES = int(os.environ.get("DPFRAME_DAMAGE", "120"))
"""Damaged records of each kind; a second for each thousand."""


def read_text(text: bytes, directory: Path) -> Record | None:
    """The record, or None if it is refused with a message."""
    file = directory / "record.json"
    file.write_bytes(text)
    try:
        return load(file)
    except RecordError as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) < 1000
    return None


def forged(text: bytes) -> bytes:
    """The same with the digest that belongs to it, where it is JSON at all."""
    with contextlib.suppress(TypeError, ValueError, AttributeError):
        contents = json.loads(text)
        contents["digest"] = digest_of(contents)
        return json.dumps(contents).encode()
    return text


def test_the_record_has_everything(recorded: Record) -> None:
    """Missing fields cannot be damaged."""
    cells = recorded.cells
    assert {cell.verdict for cell in cells} >= {"violated", "consistent", None}
    assert {cell.status for cell in cells} == {"ok", "failed"}
    assert {cell.basis is None for cell in cells} == {True, False}
    assert any(cell.claim and cell.claim.tradeoff for cell in cells)
    assert any(skip.expected for skip in recorded.skipped)


def test_a_record_is_read_as_it_was_written(recorded: Record, tmp_path: Path) -> None:
    assert read_text(dumps(recorded).encode(), tmp_path) == recorded
    compact = json.dumps(json.loads(dumps(recorded)), sort_keys=True).encode()
    assert read_text(compact, tmp_path) == recorded  # the same record, written by another program


def test_no_change_is_taken_in(recorded: Record, tmp_path: Path) -> None:
    whole = dumps(recorded)
    taken_in = 0
    for seed in range(TIMES):
        text = damaged(whole, random.Random(seed))
        if read_text(text, tmp_path) is not None:
            taken_in += 1
            assert {**json.loads(text), "digest": 0} == {**json.loads(whole), "digest": 0}, seed
    assert taken_in < TIMES / 10


def test_a_forged_digest_does_not_make_false_verdicts_true(
    recorded: Record, tmp_path: Path
) -> None:
    """Whatever is taken in is what its own numbers say."""
    whole = dumps(recorded)
    for seed in range(TIMES):
        found = read_text(forged(damaged(whole, random.Random(seed))), tmp_path)
        if found is not None:
            m, multiplicity = found.summary.m, found.audit.multiplicity
            assert found.cells == judged(found.cells, m, multiplicity), seed
            counted = totals(found.cells)
            assert counted.items() <= found.summary.model_dump().items(), seed


def test_the_command_line_has_a_message_for_each(recorded: Record, tmp_path: Path) -> None:
    whole = dumps(recorded)
    codes = []
    for seed in range(TIMES // 4):
        text = damaged(whole, random.Random(seed))
        (tmp_path / "record.json").write_bytes(forged(text))
        done = dpframe("show", ".", *(["--notes"] if seed % 2 else []), cwd=tmp_path)
        assert done.returncode in (0, 2), (seed, done.stderr)
        assert "Traceback" not in done.stderr, seed
        assert bool(done.stderr) == (done.returncode == 2)
        assert all(line.isprintable() for line in (done.stdout + done.stderr).splitlines()), seed
        codes.append(done.returncode)
    assert codes.count(2) > TIMES / 8
