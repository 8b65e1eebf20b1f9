"""Commands as black boxes: lines of JSON, consent, and failures with clear messages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dpframe_pipelines.programs.command_lines import CommandError, prepare

import dpframe
from dpframe.commands.audit import load
from dpframe.errors import SpecError

SHELL = """
read -r load
ones=$(printf '%s' "${load#*data}" | grep -o '1\\.0' | wc -l)
while read -r request; do
  echo "{\\"sum\\": $((ones + $(od -An -N1 -tu1 /dev/urandom) % 2))}"
done
"""
NODE = """
let ones = null;
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (ones === null) { ones = message.data.filter((x) => x === 1).length; return; }
  console.log(JSON.stringify({ sum: ones + (message.seed % 2) }));
});
"""


def spec(*command: str, **entry: Any) -> dict[str, Any]:
    params = {"command": list(command), "epsilon": 1.0, **entry.pop("params", {})}
    return {
        "schema": 1,
        "audit": {"name": "commands", "trials": 300},
        "pair": {
            "use": "values",
            "params": {"d0": [0.0], "d1": [1.0], "adjacency": "replace one record"},
        },
        "mechanism": [{"use": "command", "params": params, **entry}],
        "attack": [{"use": "answers"}],
        "estimator": [{"use": "order-statistics"}],
    }


def called(*arguments: str) -> Any:
    """Call the command line in the working directory."""
    command = [sys.executable, "-m", "dpframe", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def audited(script: str, **more: Any) -> Any:
    """Audit a shell script, written into the working directory."""
    Path("box.sh").write_text(script, encoding="utf-8")
    return dpframe.audit(spec("sh", "box.sh", **more), allow_command=True).cells[0]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_shell_script_is_audited() -> None:
    cell = audited(SHELL)
    assert (cell.status, cell.verdict) == ("ok", "violated")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_seeded_node_program_gives_the_same_counts_again() -> None:
    Path("box.js").write_text(NODE, encoding="utf-8")
    given = spec("node", "box.js", params={"seeded": True})
    first, second = (dpframe.audit(given, allow_command=True).cells[0] for _ in range(2))
    assert first.verdict == "violated"
    assert first.counts == second.counts


def test_an_exception_of_a_command_is_an_answer() -> None:
    cell = audited(SHELL.replace('{\\"sum\\"', '{\\"error\\": \\"ValueError: of 1\\", \\"sum\\"'))
    assert cell.status == "ok"  # only a lone error is an exception
    raises = (
        'case "$load" in *\\[1.0\\]*) echo "{\\"error\\": \\"KeyError: x\\"}";; *) echo 0;; esac'
    )
    script = f"read -r load\nwhile read -r request; do {raises}; done"
    assert audited(script).verdict == "violated"
    assert "raised KeyError: x" in audited(script, raises="fail").reason


LOOP = "read -r load; while read -r request; do {}; done"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("read -r load; read -r one; exit 3", "ended with exit code 3 instead of answering"),
        ("read -r load; kill -9 $$", "was ended by signal 9"),
        (LOOP.format("echo not JSON"), r"wrote 'not JSON\\n', which is not JSON"),
        (LOOP.format("echo 1; echo 2"), "wrote a second line for one release"),
        (LOOP.format("printf 1; exit"), "wrote no whole line: '1'"),
        ("sleep 100", r"did not answer within 0\.5 s; it must write one line"),
    ],
)
def test_a_command_that_breaks_the_protocol_fails_its_cell(script: str, message: str) -> None:
    cell = audited(script, params={"wait": 0.5})
    assert cell.status == "failed"
    assert re.search(message, cell.reason), cell.reason


def test_a_command_that_ended_before_it_was_asked_is_not_waited_for() -> None:
    params = {"argv": ["sh", "-c", "read -r load; exit 3"], "folder": None, "wait": 0.5}
    conversation = prepare({**params, "given": {}}, 0)
    while conversation._lines.empty():
        os.sched_yield()  # the thread that reads sees the end
    with pytest.raises(CommandError, match="ended with exit code 3 instead of answering"):
        conversation()


@pytest.mark.slow
def test_a_late_answer_is_a_timeout_and_no_later_answer() -> None:
    hangs = 'case "$load" in *\\[1.0\\]*) sleep 10;; esac; echo 7'
    given = spec("sh", "box.sh", limit=0.3)
    given["audit"]["trials"] = 8
    Path("box.sh").write_text(LOOP.format(hangs), encoding="utf-8")
    (cell,) = dpframe.audit(given, allow_command=True).cells
    assert cell.status == "ok", cell.reason
    (d0, d1) = cell.counts  # decisions on D, where the answer is 7, and on D′
    assert min(d0) == min(d1) == 0


def test_a_spec_runs_no_command_that_the_command_line_does_not_allow(tmp_path: Path) -> None:
    text = """
    schema = 1
    audit = { name = "commands", trials = 100 }
    pair = { use = "zeros-ones" }
    mechanism = [{ use = "command", params = { command = ["touch", "ran"], epsilon = 1.0 } }]
    attack = [{ use = "identity" }]
    estimator = [{ use = "order-statistics" }]
    """
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    for command in ("run", "compare"):
        done = called(command, "spec.toml")
        assert done.returncode == 2
        assert "touch ran is code" in done.stderr
        assert "add --allow-command" in done.stderr
    assert not (tmp_path / "ran").exists()
    load(tmp_path / "spec.toml", allow_command=True)
    with pytest.raises(SpecError, match="allow_command=True"):
        load(tmp_path / "spec.toml")
    assert called("check", "spec.toml", "--allow-command").returncode == 0
    assert (tmp_path / "ran").exists()  # it was called once, to see its answers


@pytest.mark.parametrize(
    ("command", "message"),
    [([], "command is empty"), (["no-such-program"], "no executable no-such-program in PATH")],
)
def test_a_command_that_cannot_start_is_a_mistake_in_the_spec(
    command: list[str], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        load(spec(*command), allow_command=True)


def test_a_search_makes_an_allowed_command_again() -> None:
    Path("box.sh").write_text(SHELL, encoding="utf-8")
    given = spec("sh", "box.sh")
    del given["pair"], given["estimator"]
    given["search"] = {
        "use": "records",
        "params": {"table": [0.0, 1.0], "schema": [{"low": 0, "high": 1}], "adjacency": "replace"},
        "parameters": {"mechanism.wait": [30.0, 50.0]},
    }
    (cell,) = dpframe.audit(given, allow_command=True).cells
    assert (cell.status, cell.verdict) == ("ok", "violated")
    with pytest.raises(SpecError, match="allow_command=True"):
        dpframe.audit(given)


def test_another_program_is_another_mechanism() -> None:
    def code() -> str:
        loaded = load(spec("sh", "box.sh"), allow_command=True)
        return str(loaded.cells[0].mechanism.value.code())

    Path("box.sh").write_text(SHELL, encoding="utf-8")
    before = code()
    assert code() == before
    Path("box.sh").write_text(SHELL + "\n", encoding="utf-8")
    assert code() != before


def test_the_page_on_commands_runs() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/audit-a-black-box.md").read_text("utf-8")
    section = page.split("## A command\n")[1].split("\n## ")[0]
    _, script, *_ = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    Path("box.sh").write_text(script, encoding="utf-8")
    (toml,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    Path("shell.toml").write_text(toml, encoding="utf-8")
    done = called("run", "shell.toml", "--allow-command", "--quiet")
    assert done.returncode == 1, done.stderr
    assert "violated" in done.stdout
