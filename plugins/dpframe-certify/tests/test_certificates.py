"""Certificates of records, the command that writes them, and the checker as a file."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import certcheck
import dpframe_certify
import pytest
from certify_support.certificates import (
    CHECKER,
    GIVEN,
    Curved,
    certify,
    checked,
    code,
    spec,
    written,
)
from dpframe_certify import certificate

import dpframe
from dpframe.plugins import DpframeError


def test_every_theorem_is_recomputed(certificates: dict[str, Any]) -> None:
    theorems, verdicts = set(), set()
    for name, contents in certificates.items():
        left = checked(contents)
        evidences = [one["estimate"]["evidence"] for one in contents["conclusions"]]
        theorems |= {found and found["theorem"] for found in evidences}
        verdicts |= {one["verdict"] for one in contents["conclusions"]}
        assert len(left) == (name == "bets")
    assert theorems == {*certcheck.DESIGN, None}
    assert verdicts == {"violated", "consistent", "inconclusive"}


def test_what_is_not_checked_is_no_success(
    certificates: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code(written(certificates["bets"]), tmp_path) == 3
    said = capsys.readouterr().out
    assert said.count("NOT CHECKED: ") == 1
    assert "1 of 2 conclusions recomputed; 1 NOT CHECKED" in said
    assert code(written(certificates["ranks"]), tmp_path) == 0
    assert code(written(certificates["curves of one run"]), tmp_path) == 0


def test_equal_records_make_equal_bytes(certificates: dict[str, Any]) -> None:
    again = certificate(dpframe.audit(spec({"use": "order-statistics"}, trials=300)))
    assert again["conclusions"] == certificates["ranks"]["conclusions"]


def test_a_record_that_certifies_nothing_has_no_certificate() -> None:
    with pytest.raises(DpframeError, match="certifies nothing"):
        certificate(dpframe.audit(spec({"use": "credible"})))


def test_claims_that_are_unknown_are_not_checked() -> None:
    said = {
        **spec(GIVEN, delta=1e-3),
        "mechanism": [{"use": "curved", "params": {"curve": "laplace"}}],
    }
    contents = certificate(dpframe.audit(said, plugins=[Curved]))
    assert checked(contents) == {0: "its claim is unknown to this program"}
    contents["conclusions"][0]["estimate"]["epsilon_lower"] *= 1.01
    with pytest.raises(ValueError, match="its bound is wrong"):
        checked(contents)
    contents["conclusions"][0]["claim"].update(kind="bound", parameters={"epsilon": 1, "delta": 0})
    with pytest.raises(ValueError, match="its bound is wrong"):
        checked(contents)


def test_the_checker_is_one_short_file_of_the_standard_library() -> None:
    text = CHECKER.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 680
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name) or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_checker_runs_alone(certificates: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "cert.json"
    file.write_text(written(certificates["one-run"]))
    call = [sys.executable, "-I", "-S", CHECKER]
    done = subprocess.run([*call, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 conclusions recomputed" in done.stdout
    done = subprocess.run([*call, tmp_path / "none"], check=False, capture_output=True)
    assert done.returncode == 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    record = dpframe.audit(spec(GIVEN, trials=200))
    (folder / "record.json").write_text(json.dumps(record.as_json()))
    return folder


def test_the_command_writes_a_certificate(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "cert.json"
    assert certify(run, out).exit_code == 0
    assert certcheck.main([str(out)]) == 0
    assert out.read_text() == written(certificate(dpframe.load(run)))


def test_bets_are_added_by_repeating_the_run(tmp_path: Path) -> None:
    contents = {**spec({"use": "betting"}, GIVEN), "run": {"stop": "decided"}}
    contents["mechanism"] = contents["mechanism"][:2]
    record, out = dpframe.audit(contents, trials=100), tmp_path / "cert.json"
    (tmp_path / "record.json").write_text(json.dumps(record.as_json()))
    assert certify(tmp_path, out).exit_code == 0
    assert certcheck.main([str(out)]) == 3
    assert certify(tmp_path, out, "--bets").exit_code == 0
    assert certcheck.main([str(out)]) == 0
    said = {one["id"]: one["verdict"] for one in json.loads(out.read_text())["conclusions"]}
    assert sorted(said.values()) == sorted(cell.verdict for cell in record.cells)
    drawn = record.spec.model_copy(update={"overrides": ["audit.trials=100", "audit.seed=6"]})
    with pytest.raises(DpframeError, match="a repeat gave"):
        dpframe_certify.with_bets(record.model_copy(update={"spec": drawn}))


@pytest.mark.parametrize(
    ("key", "tool", "words"),
    [
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "ssh-keygen",
            "-Y sign -f KEY -n dpframe-certificate",
        ),
        ("untrusted comment: minisign secret key", "minisign", "-S -s KEY -m"),
    ],
)
def test_signing_is_left_to_a_known_program(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, tool: str, words: str
) -> None:
    secret, out, log = tmp_path / "KEY", tmp_path / "cert.json", tmp_path / "log"
    secret.write_text(key)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = certify(run, out, "--sign", secret)
    assert isinstance(done.exception, DpframeError)
    assert f"{tool}, which is not installed" in str(done.exception)
    program = tmp_path / tool
    program.write_text(f'#!/bin/sh\necho "$@" > {log}\nexit $STATUS\n')
    program.chmod(0o755)
    monkeypatch.setenv("STATUS", "0")
    assert certify(run, out, "--sign", secret).exit_code == 0
    said = log.read_text().replace(str(secret), "KEY").replace(str(out), "").strip()
    assert said == words
    monkeypatch.setenv("STATUS", "3")
    assert "could not sign" in str(certify(run, out, "--sign", secret).exception)


def test_a_place_that_cannot_be_written_is_named(run: Path, tmp_path: Path) -> None:
    done = certify(run, tmp_path / "none" / "cert.json")
    assert "cert.json: No such file" in str(done.exception)
    done = certify(run, tmp_path / "cert.json", "--sign", tmp_path / "none")
    assert "none: No such file" in str(done.exception)
    assert not [*tmp_path.iterdir()]
