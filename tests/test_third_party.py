"""A real distribution of a third party, built, installed and used."""

from __future__ import annotations

import ast
import importlib
import json
import signal
import sys
import textwrap
import types
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from support.black_boxes import sample_in_this_process
from typer.testing import CliRunner

import dpframe
from dpframe import builtin
from dpframe.cli import app
from dpframe.cli.app import _called, _points
from dpframe.commands.audit import load
from dpframe.commands.run import Invocation, run
from dpframe.engine.run import quiet
from dpframe.errors import OutputError
from dpframe.interfaces import registry
from dpframe.interfaces.plugin import parameters
from dpframe.report import delivery
from dpframe.results.store import dumps, exit_code

HERE = Path(__file__).parent / "third_party"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory):
    """Builds the wheel and puts its contents, metadata included, where Python finds them."""
    site = tmp_path_factory.mktemp("site")
    (wheel,) = WheelBuilder(str(HERE)).build(directory=str(tmp_path_factory.mktemp("wheel")))
    zipfile.ZipFile(wheel).extractall(site)
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    patch = pytest.MonkeyPatch()
    patch.setenv("DPFRAME_NO_PLUGINS", "0")
    yield site
    patch.undo()
    sys.path.remove(str(site))
    for name in [name for name in sys.modules if name.startswith("dpframe_example")]:
        sys.modules.pop(name)
    _points.cache_clear()


def test_it_imports_nothing_private() -> None:
    source = (HERE / "dpframe_example" / "__init__.py").read_text()
    modules = {
        name
        for node in ast.walk(ast.parse(source))
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert modules <= {
        "cloudpickle",
        "concurrent.futures",
        "dpframe",
        "dpframe.plugins",
        "jax",
        "math",
        "typing",
    }


def test_it_is_found_with_its_provenance(installed: Path) -> None:
    found = registry.load()
    assert found.broken == ()
    entry = found.find("mechanism", "uniform-noise")
    assert (entry.distribution, entry.version) == ("dpframe-example", "1.2.3")
    assert found.find("attack", "dpframe-example/first-coordinate").name == "first-coordinate"


def test_its_own_base_class_gives_fields_with_their_meaning(installed: Path) -> None:
    for name, default in (("first-coordinate", "0.5"), ("last-coordinate", "0.25")):
        (row,) = parameters(registry.load().find("attack", name).cls)
        assert (row.name, row.default, row.meaning) == ("threshold", default, "Decide D′ above it.")


def test_it_can_be_switched_off(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPFRAME_NO_PLUGINS", "1")
    assert {entry.distribution for entry in registry.load().entries} == {"dpframe"}


def test_an_audit_uses_it(installed: Path) -> None:
    record = dpframe.audit(HERE / "example.toml")
    found = [(c["id"], c["verdict"], c["counts"], c["p_value"]) for c in record["cells"]]
    assert exit_code(record) == 0, found
    assert len(record["cells"]) == 8
    assert record["summary"]["m"] == 4
    (used,) = [plugin for plugin in record["plugins"] if plugin["name"] == "uniform-noise"]
    assert (used["distribution"], used["version"]) == ("dpframe-example", "1.2.3")
    verdicts = {c["estimator"]["use"]: c["verdict"] for c in record["cells"]}
    assert verdicts["advantage"] is None


@pytest.fixture
def record(installed: Path, tmp_path: Path) -> Path:
    audit = {"name": "a", "trials": 100}
    parts = {"mechanism": "laplace", "attack": "identity", "estimator": "order-statistics"}
    document = {"schema": 1, "audit": audit, "pair": {"use": "zeros-ones"}}
    document |= {part: [{"use": use}] for part, use in parts.items()}
    document["mechanism"][0]["params"] = {"epsilon": 1.0}
    path = tmp_path / "record.json"
    path.write_text(dumps(dpframe.audit(document)))
    return path


def command(*arguments: object) -> tuple[int, str, str]:
    _points.cache_clear()
    found = CliRunner().invoke(app, list(map(str, arguments)))
    return found.exit_code, found.stdout, str(found.exception or found.stderr)


def test_its_report_format_is_one_of_dpframe_report(record: Path) -> None:
    out = record.parent / "x.tiny"
    assert command("report", record, "-o", out)[0] == 0
    (cell,) = json.loads(record.read_text())["cells"]
    assert out.read_text() == f"{cell['id']} {cell['verdict']}\n"
    with pytest.raises(OutputError, match=r"must be \.html, \.csv, \.md, \.xml, \.json or \.tiny"):
        delivery.check(record.parent / "x.pdf")


def test_built_in_report_formats_load_no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load", lambda: pytest.fail("plugins are loaded"))
    for suffix in (".html", ".csv", ".md", ".XML"):
        assert callable(delivery._writer(suffix, suffix))


@pytest.mark.parametrize(
    ("suffixes", "document", "problem"),
    [
        (".x", str, "must be like (\".html\",), not '.x'"),
        ((), str, 'must be like (".html",), not ()'),
        (("x",), str, "must be like (\".html\",), not ('x',)"),
        ((".x",), None, "a report format for .x has no method document(record)"),
        ((".MD",), str, "provides a report format for .MD, which already exists"),
    ],
)
def test_a_report_format_that_cannot_be_used_is_told(
    suffixes: object, document: object, problem: str
) -> None:
    plugin = types.ModuleType("own")
    wrong = types.SimpleNamespace(suffixes=suffixes, document=document)
    right = types.SimpleNamespace(suffixes=(".y",), document=str)
    plugin.dpframe_reports = dpframe.hookimpl(lambda: [wrong, right])
    loader = registry.Registry()
    loader._add("dpframe", "1", "reports", lambda: builtin)
    loader._add("own", "1", "module", lambda: plugin)
    (broken,) = loader.broken
    assert problem in broken.error
    assert (broken.distribution, broken.what) == ("own", "module, dpframe_reports")
    assert loader.reports[".y"] is right
    assert ".x" not in loader.reports


def test_its_command_runs(record: Path) -> None:
    (cell,) = json.loads(record.read_text())["cells"]
    assert command("verdicts", record)[:2] == (0, f"{cell['verdict']}: 1\n")


def test_help_names_its_command_and_imports_nothing(installed: Path) -> None:
    sys.modules.pop("dpframe_example.commands", None)
    code, text, _ = command("--help")
    assert code == 0
    assert "verdicts" in text
    assert "Provided by dpframe-example 1.2.3." in text
    assert "dpframe_example.commands" not in sys.modules


def test_a_command_that_cannot_be_imported_is_told(installed: Path) -> None:
    _, _, error = command("broken")
    assert "the command 'broken' of dpframe-example 1.2.3 could not be loaded" in error
    assert "dpframe_example.missing" in error


def test_its_commands_can_be_switched_off(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPFRAME_NO_PLUGINS", "1")
    assert command("verdicts")[0] == 2
    assert "dpframe-example" not in command("--help")[1]
    _points.cache_clear()


def test_its_commands_say_themselves_what_an_interruption_keeps(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import dpframe_example.commands

    def interrupted(text: str) -> None:
        signal.raise_signal(signal.SIGINT)

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(dpframe_example.commands, "json", SimpleNamespace(loads=interrupted))
    _points.cache_clear()
    try:
        assert _called(["verdicts", __file__]) == 130
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    assert capsys.readouterr().err == "interrupted\n"


def test_its_executor_does_the_tasks_of_a_run(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts of traced mechanisms and of black boxes stay."""
    import dpframe_example

    document = {
        "schema": 1,
        "audit": {"name": "t", "trials": 4000, "seed": 5},
        "pair": {"use": "zeros-ones", "params": {"dim": 2}},
        "mechanism": [
            {"use": "uniform-noise"},
            {"use": "laplace-numpy", "params": {"epsilon": 1.0}},
        ],
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": "precision"}],
        "run": {"chunk": 512},
    }
    done: list[str] = []
    submit = dpframe_example.Inline.submit

    def noted(self: Any, task: dpframe.Task) -> Any:
        done.append(type(task).__name__)
        return submit(self, task)

    monkeypatch.setattr(dpframe_example.Inline, "submit", noted)
    found = run(
        load(document), Invocation(tmp_path, cluster="inline:"), lambda *_: nullcontext(quiet)
    )
    assert {*done} == {"CountSegment", "DrawBlackBox"}
    sample_in_this_process(monkeypatch)
    wanted = dpframe.audit(document)
    assert [cell.status for cell in found.cells] == ["ok"] * 2
    assert [cell.counts for cell in found.cells] == [cell.counts for cell in wanted.cells]


def test_a_file_brings_an_executor(tmp_path: Path) -> None:
    text = """
        from dpframe import Executor, hookimpl

        class Own(Executor):
            schemes = ("own",)
            capacity = 3

            def submit(self, task):
                raise NotImplementedError

            def close(self):
                pass

        @hookimpl
        def dpframe_executors():
            return [Own]
        """
    file = tmp_path / "own.py"
    file.write_text(textwrap.dedent(text))
    found = registry.load(files=[file, file]).executor("own:x", print)
    assert (found.address, found.capacity) == ("own:x", 3)


def test_addresses_of_unknown_executors_are_left_to_the_built_in_one(installed: Path) -> None:
    with pytest.raises(dpframe.DpframeError, match="nowhere"):
        registry.load().executor("nowhere://x", print)


def test_a_broken_executor_is_named_and_ends_no_other(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dpframe_example

    @dpframe.hookimpl
    def dpframe_executors() -> Any:
        raise RuntimeError("not today")

    monkeypatch.setattr(dpframe_example, "dpframe_executors", dpframe_executors)
    said: list[str] = []
    with pytest.raises(dpframe.DpframeError, match="inline"):
        registry.load().executor("inline:", said.append)
    assert len(said) == 1
    assert "not today" in said[0]
