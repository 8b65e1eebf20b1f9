"""Reading the file of a spec."""

import hashlib
import os

import numpy as np
import pytest

from dpframe.errors import SpecError
from dpframe.spec import load_audit


def error_of(path, registry):
    with pytest.raises(SpecError) as caught:
        load_audit(path, registry=registry)
    return str(caught.value)


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_missing_file(registry, tmp_path):
    assert error_of("none.toml", registry) == "none.toml: no such file"
    (tmp_path / "dptext.toml").touch()
    assert error_of("dptxt.toml", registry) == (
        "dptxt.toml: no such file; did you mean 'dptext.toml'?"
    )
    assert error_of("no/where/x.toml", registry) == "no/where/x.toml: no such file"


def test_directory(registry, tmp_path):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "a.toml").touch()
    assert error_of(tmp_path / "specs", registry) == (
        f"{tmp_path}/specs: is a directory; a spec is a TOML file\n   in it: a.toml"
    )


def test_unreadable(registry, tmp_path):
    (tmp_path / "file").touch()
    assert error_of("file/x.toml", registry) == "file/x.toml: cannot be read: Not a directory"
    unreadable = error_of("a\0b", registry)  # Python 3.13 says "open: " first
    assert "cannot be read: " in unreadable
    assert "embedded null" in unreadable


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(registry, tmp_path):
    (tmp_path / "x.toml").touch(mode=0)
    assert error_of("x.toml", registry) == "x.toml: cannot be read: Permission denied"


def test_not_utf8(registry, tmp_path):
    (tmp_path / "x.toml").write_bytes(b'schema = 1\nname = "\xff"\n')
    assert error_of("x.toml", registry) == "x.toml:2: is not UTF-8 text"


def test_only_regular_files_of_a_decent_size(registry, tmp_path, monkeypatch):
    os.mkfifo("pipe")
    assert error_of("pipe", registry) == "pipe: is not a regular file"
    assert error_of("/dev/zero", registry) == "/dev/zero: is not a regular file"
    monkeypatch.setattr("dpframe.spec.tables.MOST_BYTES", 100)
    (tmp_path / "x.toml").write_text("#" * 101)
    assert error_of("x.toml", registry) == "x.toml: has more than 100 bytes"


def test_a_file_name_that_is_no_text(registry):
    name = os.fsdecode(b"\xff.toml")
    assert error_of(name, registry) == "\\udcff.toml: no such file"


def test_what_a_run_wrote_is_no_spec(registry, tmp_path):
    record = tmp_path / "runs" / "a" / "record.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"schema": 1, "spec": {"path": "a.toml"}, "cells": []}')
    assert error_of("runs/a/record.json", registry) == (
        "runs/a/record.json: is the record of a run; a spec is a TOML file; it "
        "was made from a.toml\n   to print it: dpframe show runs/a/record.json"
    )
    assert error_of("runs/a", registry) == (
        "runs/a: is the directory of a run; a spec is a TOML file\n"
        "   to print what it found: dpframe show runs/a"
    )
    record.write_text("{}")
    assert error_of(record, registry) == f"{record}: is JSON; a spec is a TOML file"
    record.write_text("{")
    assert "is not TOML" in error_of(record, registry)


def test_numbers_beyond_all_measure(mistakes, base):
    [message] = mistakes("a = 1\nb = " + "1_0" * 5_000)
    assert message.startswith("spec.toml:2: is not TOML: an integer has more than 4300 digits\n")
    [message] = mistakes(base.replace("1000", "0x" + "f" * 5_000))
    assert message.startswith("spec.toml:5: audit.trials: is an integer of more than 64 bits\n")
    [message] = mistakes(base, overrides=["audit.trials=" + "1" * 5_000])
    assert message.endswith("a number is too long")
    [message] = mistakes(base, overrides=[f"audit.trials={2**64}"])
    assert message.endswith("is an integer of more than 64 bits")
    [message] = mistakes(base, trials=10**5_000)
    assert message == "--trials: is an integer of more than 64 bits"


def test_what_is_nested_too_deeply(base, mistakes):
    [message] = mistakes(base, overrides=["audit.name=" + "[" * 400 + "]" * 400])
    assert message.endswith("is nested too deeply")
    [message] = mistakes(base + "[sweep]\nx" + ".x" * 60 + " = 1")
    assert message.startswith("spec.toml:19: sweep: is nested too deeply")


def test_text_that_is_not_unicode(base, mistakes, registry):
    [message] = mistakes(base, overrides=["audit.name=\udcff"])
    assert message == "--set audit.name=\\udcff: contains characters that are not Unicode"
    with pytest.raises(SpecError, match=r"audit\.name: contains characters that are not Unicode"):
        load_audit({"audit": {"name": "\udcff"}}, registry=registry)


def test_syntax_error(mistakes):
    assert mistakes("schema = 1\n[audit]\nname = \n") == [
        "spec.toml:3: is not TOML: invalid value, column 8\n    3 | name = "[:-1]
    ]
    [message] = mistakes('schema = 1\na = "x')
    assert message.startswith("spec.toml:2: is not TOML: ")
    [message] = mistakes("a = 1\na = 2\n")
    assert message.startswith("spec.toml:2: is not TOML: ")


def test_nested_without_end(mistakes):
    [message] = mistakes("a = " + "[" * 100_000)
    assert message.startswith("spec.toml")


def test_control_characters_do_not_reach_the_terminal(mistakes):
    [message] = mistakes("a = \x1b[31m")
    assert "\x1b" not in message


def test_empty_file(mistakes):
    assert mistakes("") == [
        f"spec.toml: {header} is missing"
        for header in (
            "schema = 1",
            "[audit]",
            "[pair]",
            "[[mechanism]]",
            "[[attack]]",
            "[[estimator]]",
        )
    ]


def test_source_is_kept_for_the_record(load, base, tmp_path):
    audit = load(base, overrides=["audit.seed = 3"], trials=7)
    assert audit.source.path == "spec.toml"
    assert audit.source.text == base
    assert audit.source.sha256 == hashlib.sha256(base.encode()).hexdigest()
    assert audit.source.overrides == ("audit.seed = 3", "audit.trials=7")


def test_byte_order_mark_and_windows_line_ends(load, mistakes, base):
    text = "\ufeff" + base.replace("\n", "\r\n")
    assert len(load(text).cells) == 1
    [message] = mistakes(text.replace("trials = 1000", "trials = 0"))
    assert message.startswith("spec.toml:5: audit.trials: ")


def test_dict_for_notebooks(registry):
    tables = {
        "schema": 1,
        "audit": {"name": "notebook", "trials": np.int64(10)},
        "pair": {"use": "line"},
        "mechanism": [{"use": "rich", "params": {"shape": (1, 2), "sensitivity": None}}],
        "attack": [{"use": "guess"}],
        "estimator": [{"use": "rate"}],
        "sweep": {"mechanism.epsilon": np.array([0.5, 1.0])},
    }
    audit = load_audit(tables, registry=registry, overrides=["pair.dim=3"], seed=4)
    first, second = audit.cells
    assert (first.trials, first.seed) == (10, 4)
    assert (first.mechanism.value.epsilon, second.mechanism.value.epsilon) == (0.5, 1.0)
    assert first.mechanism.value.shape == (1, 2)
    assert tables["sweep"]["mechanism.epsilon"].shape == (2,), "the caller's tables are untouched"
    assert audit.source.path == ""
    assert '"name": "notebook"' in audit.source.text


def test_mistakes_in_a_dict_have_no_line(registry):
    with pytest.raises(SpecError) as caught:
        load_audit({"schema": 1, "audit": {"name": "x", "trials": 0}}, registry=registry)
    assert "[pair] is missing" in caught.value.problems
    assert "audit.trials: should be greater than or equal to 1, got 0" in caught.value.problems


def test_dates_are_text(mistakes, base):
    [message] = mistakes(base.replace("params.epsilon = 1.0", "params.epsilon = 2026-01-01"))
    assert message.startswith(
        'spec.toml:12: mechanism[0].params.epsilon: should be a number, got "2026-01-01"'
    )
