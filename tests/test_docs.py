"""Examples in the documents run, lists are complete, and links lead somewhere.

Every fenced block of README.md and docs/ is run or checked, in the order of its page. A comment on
the line before it says how, where readers do not see it: `<!-- file=box.py -->`.

* `file=NAME` writes the block to NAME in the page's directory, `append=NAME` adds it to NAME;
* `fragment` is a part of a spec, checked on top of a small one;
* `needs=MODULE` runs the block only where that module is installed;
* `exit=N` is the exit code that the last command of the block must have; default 0;
* `no-run: REASON` leaves the block alone.

A `text` block is what the command or the Python block before it printed. Digits, blanks and line
breaks do not count; a line `…` stands for anything.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import tomli
import typer
from hatchling.builders.wheel import WheelBuilder
from support import searches
from support.black_boxes import sample_in_this_process
from support.pages import ROOT, headings, page, prose, rows, section
from typer.testing import CliRunner

import dpframe
from dpframe.cli import app
from dpframe.commands import calibrate
from dpframe.interfaces import hookspecs, registry
from dpframe.interfaces.plugin import API, parameters
from dpframe.results import store as records
from dpframe.results.model import FindingRecord, InstalledRecord, Record
from dpframe.spec import model
from dpframe.testing import corner

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
)

FEW = 2_000
FEW_REPEATS = 10
SMALLER = {
    "specs/dptext.toml": shlex.split("--trials 20000 --set mechanism.epsilon=1.0 --set pair.dim=2"),
    "specs/adept-spread.toml": shlex.split("--trials 100000 --set audit.repeats=2"),
    "--blocks": ["--set", "pair.dim=2"],
    "--power": shlex.split("--set pair.dim=2 --set mechanism.epsilon=1.0"),
}
"""Changes to commands that take long, by the spec or an option."""

WITHOUT_WORKERS = {
    "docs/how-to/audit-a-session.md",
    "docs/how-to/audit-training.md",
    "docs/how-to/audit-a-black-box.md",
    "docs/how-to/search-for-a-violation.md",
    "docs/how-to/write-a-mechanism.md",
}
"""Pages with many black boxes; each process takes a second, and slow tests run every page as is."""

SLOW = {
    "docs/explanation/library-findings.md",
    "docs/explanation/how-an-audit-works.md",
    "docs/explanation/one-run.md",
    "docs/how-to/audit-a-black-box.md",
    "docs/how-to/audit-training.md",
    "docs/how-to/audit-your-library.md",
    "docs/how-to/audit-scores.md",
    "docs/how-to/compare-estimators.md",
    "docs/gallery.md",
    "docs/reference/spec.md",
    "docs/how-to/make-reports.md",
    "docs/how-to/prove-a-run.md",
    "docs/how-to/run-on-many-machines.md",
    "docs/how-to/search-for-a-violation.md",
    "docs/how-to/write-a-mechanism.md",
    "docs/sharp-edges.md",
    "docs/tutorial.md",
}
"""Pages that take long; what they show has tests of its own."""

COMMANDS_READ = {"docs/how-to/audit-scores.md", "docs/gallery.md"}
"""Pages with commands that read what their Python has written."""

INSTALLATION = ("python3 -m venv", ". .venv", "pip install", "pytest")
"""Commands that are left out: the tests run in an installation already."""

QUICK_TO_COMPILE = [{"use": "projection"}]
"""Attacks of searches that name none, which otherwise try a dozen; slow tests leave them as is."""

BASE = """
schema = 1
audit = { name = "base", trials = 1000 }
pair = { use = "zeros-ones" }
mechanism = [{ use = "laplace", params = { epsilon = 1.0 } }]
attack = [{ use = "majority-vote" }]
estimator = [{ use = "precision" }]
"""


GUARD = 'if __name__ == "__main__":'


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    language: str
    options: dict[str, str]
    text: str


# --------------------------------------------------------------------------------------------------
# Reading pages


def blocks(name: str) -> list[Block]:
    found, lines = [], page(name).split("\n")
    start = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
            continue
        language = lines[start][3:].strip()
        assert " " not in language, f"{name}:{start + 1}: readers see {language!r}"
        text = "\n".join(lines[start + 1 : number])
        found.append(Block(start + 1, language, options(lines[start - 1] if start else ""), text))
        start = None
    assert start is None, f"{name}:{start}: the block is not closed"
    return found


def options(line: str) -> dict[str, str]:
    """Return the options that a comment gives to the block below it."""
    comment = re.fullmatch(r"<!-- (.*) -->", line)
    words, colon, reason = (comment[1] if comment else "").partition("no-run:")
    said = dict(word.partition("=")[::2] for word in words.split())
    if colon:
        said["no-run"] = reason.strip()
    assert all(said[key] or key == "fragment" for key in said), f"{line}: nothing follows"
    assert set(said) <= {"file", "append", "fragment", "exit", "needs", "no-run"}, line
    if importlib.util.find_spec(said.get("needs", "dpframe")) is None:
        said["no-run"] = f"{said['needs']} is not installed"
    return said


# --------------------------------------------------------------------------------------------------
# Every block runs


class Session:
    """One page at work in a directory of its own."""

    def __init__(
        self, name: str, directory: Path, patch: pytest.MonkeyPatch, *, whole: bool = False
    ) -> None:
        self.name, self.directory, self.patch, self.whole = name, directory, patch, whole
        self.module = types.ModuleType(f"page_{re.sub(r'[^a-z]', '_', name.lower())}")
        patch.setitem(sys.modules, self.module.__name__, self.module)
        for place in (directory, directory / "site"):
            patch.syspath_prepend(place)
        self.output: str | None = ""  # None if a block lacks the module that it needs

    def run(self, found: Block) -> None:
        if "no-run" in found.options:
            if "needs" in found.options:
                self.output = None
            return
        for option, mode in (("file", "w"), ("append", "a")):
            if option in found.options:
                path = self.directory / found.options[option]
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open(mode, encoding="utf-8") as file:
                    file.write(found.text + "\n")
        getattr(self, f"_{found.language}")(found)

    def _python(self, found: Block) -> None:
        # The page is no script here; what it keeps from worker processes is run all the same.
        text = found.text.replace(GUARD, "if True:")
        code = compile(text, f"{self.name}:{found.line}", "exec")
        if "file" in found.options:
            return
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, self.module.__dict__)
        self.output = output.getvalue()

    def _toml(self, found: Block) -> None:
        tables = tomli.loads(found.text)
        written = found.options.get("file", found.options.get("append"))
        if "project" in tables:
            self._install(self.directory / written)
        elif written and self._is_run_later(found):
            return
        elif "fragment" in found.options:
            self._spec({**tomli.loads(BASE), **tables})
        elif written:
            self._spec(self.directory / written)
        else:
            self._spec(tables)

    def _is_run_later(self, found: Block) -> bool:
        """True if a block below does more with the spec than this one could."""
        name = Path(found.options.get("file", found.options.get("append", ""))).name
        below = [block for block in blocks(self.name) if block.line > found.line]
        later = rf"dpframe (run|compare|check) \S*{re.escape(name)}( --plugin \S+)?$"
        commands = re.compile(later, re.MULTILINE)
        return any(block.language == "sh" and commands.search(block.text) for block in below)

    def _spec(self, spec: Any) -> None:
        if isinstance(spec, dict) and "search" in spec and not self.whole:
            spec = {"attack": QUICK_TO_COMPILE, **spec}
        record = dpframe.audit(spec, trials=FEW, plugins=self._classes())
        assert not record["summary"]["failed"]

    def _classes(self) -> list[type]:
        """Plugins that the Python blocks of the page have defined."""
        values = list(vars(self.module).values())
        return [v for v in values if isinstance(v, type) and "name" in vars(v) and "kind" in dir(v)]

    def _install(self, pyproject: Path) -> None:
        """Installs a package of the page, without touching the environment of the tests."""
        (wheel,) = WheelBuilder(str(pyproject.parent)).build(directory=str(self.directory / "dist"))
        shutil.unpack_archive(wheel, self.directory / "site", "zip")
        self.patch.setenv("DPFRAME_NO_PLUGINS", "0")

    def close(self) -> None:
        """Forgets the modules of the page."""
        for file in self.directory.glob("*.py"):
            sys.modules.pop(file.stem, None)

    def _sh(self, found: Block) -> None:
        lines = re.sub(r"\\\n\s*", "", found.text).split("\n")
        commands = [part.strip() for line in lines for part in line.split("&&")]
        commands = [c for c in commands if c and not c.startswith(("#", *INSTALLATION))]
        for command in commands:
            last = command is commands[-1]
            self._command(command, int(found.options.get("exit", 0)) if last else 0)

    def _command(self, command: str, expected: int) -> None:
        words = shlex.split(command, comments=True)
        environment = {}
        while "=" in words[0]:
            name, _, environment[name] = words.pop(0).partition("=")
        target = None
        if ">" in words:
            target = self.directory / words.pop()
            words.pop()
        if words[:2] == ["pytest", "tests"]:
            return
        assert words.pop(0) == "dpframe", f"{command!r} can neither be run nor is it marked"
        if words[0] in ("run", "compare") or "--power" in words:
            words += next((SMALLER[word] for word in words if word in SMALLER), [])
        elif words[0] == "calibrate":  # the option that comes last counts
            words += ["--repeats", str(FEW_REPEATS)]
            while words.count("--trials") > 1:  # a page may name several; each compiles anew
                second = words.index("--trials", words.index("--trials") + 1)
                del words[second : second + 2]
        result = CliRunner(env=environment).invoke(app, words)
        self.output = result.output
        assert result.exit_code == expected, f"{command}: {result.exit_code}\n{result.output}"
        if target:
            target.write_text(result.stdout, encoding="utf-8")

    def _text(self, found: Block) -> None:
        if self.output is None:
            return
        parts = [squeezed(part) for part in re.split(r"^…$", found.text, flags=re.MULTILINE)]
        pattern = ".*".join(re.escape(part) for part in parts)
        assert re.search(pattern, squeezed(self.output), re.DOTALL), f"printed:\n{self.output}"

    def _json(self, found: Block) -> None:
        json.loads(found.text)

    def _(self, found: Block) -> None:
        raise AssertionError(f"{self.name}:{found.line}: the block names no language")


def squeezed(text: str) -> str:
    """Return the text that a page and a program must share: all but digits, blanks and bars."""
    return re.sub(r"[\s\d.,#━●┃→─]+", "", text)


CORNERS: dict[tuple[Any, ...], Any] = {}


def corner_row_once(part: Any, run: Any) -> Any:
    """Compute the row of an estimator once for all calibrations of the pages."""
    cell = part.cell
    key = (cell.attack.value.gives, cell.estimator.value, cell.confidence, run.precision)
    if key not in CORNERS:
        CORNERS[key] = corner.corner_row(part, run)
    return CORNERS[key]


def calibrated_a_little(spec: Any, *, repeats: int, **more: Any) -> Any:
    """In Python; on the command line the same."""
    return calibrate.calibrate(spec, repeats=min(repeats, FEW_REPEATS), **more)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in PAGES]
)
def test_every_block_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_blocks(name, tmp_path, monkeypatch)


@pytest.mark.slow
def test_searches_of_a_page_without_a_script_try_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_blocks("docs/reference/spec.md", tmp_path, monkeypatch, whole=True)


def run_blocks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, whole: bool = False
) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(calibrate, "corner_row", corner_row_once)
    monkeypatch.setattr(dpframe, "calibrate", calibrated_a_little)
    if name in WITHOUT_WORKERS:
        sample_in_this_process(monkeypatch)
    session = Session(name, tmp_path, monkeypatch, whole=whole)
    try:
        for found in blocks(name):
            with noted(f"in the block at {name}:{found.line}"):
                session.run(found)
    finally:
        session.close()


def script(name: str) -> str:
    """The Python blocks of a page, one after the other, with an empty line where text was."""
    blank = [""] * page(name).count("\n")
    for found in blocks(name):
        if found.language == "python" and not {"no-run", "file"} & set(found.options):
            lines = found.text.split("\n")
            blank[found.line : found.line + len(lines)] = lines
    return "\n".join(blank).rstrip() + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PAGES if script(name).strip()])
def test_every_page_is_a_script_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, whose workers import the script again."""
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    monkeypatch.chdir(tmp_path)
    session = Session(name, tmp_path, monkeypatch, whole=True)
    try:
        for found in blocks(name):
            again = found.language in ("python", "text") and "file" not in found.options
            if name in COMMANDS_READ or not again:
                session.run(found)  # files, and results of commands, that the script reads
    finally:
        session.close()
    (tmp_path / "page.py").write_text(script(name), encoding="utf-8")
    path = os.pathsep.join(map(str, (tmp_path / "site", ROOT)))
    done = subprocess.run(
        [sys.executable, "-W", "error", "page.py"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    session.output, printed = done.stdout, False
    for found in blocks(name):
        if found.language == "text" and printed:
            session.run(found)
        printed = found.language == "python"


@contextlib.contextmanager
def noted(place: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(place)
        raise


# --------------------------------------------------------------------------------------------------
# Every link leads somewhere, and every page is linked


def links(name: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(name))


def anchors(name: str) -> set[str]:
    """Anchors as GitHub makes them of headings."""
    texts = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings(prose(name)))
    return {text.strip().replace(" ", "-") for text in texts}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    for link in links(name):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), f"{name}: {link} does not exist"
        if anchor:
            relative = Path(os.path.relpath(target, ROOT)).as_posix()
            assert anchor in anchors(relative), f"{name}: {link} names no heading"


def test_thousands_are_separated_by_commas_in_pages_reports_and_help() -> None:
    """Code is read because help and messages come from it; 8 32 64 128 are four numbers."""
    apart = re.compile(r"(?<![\d.,/])(?<!\d[ \u00a0])\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?![\d.])")
    kinds = ("dpframe/**/*.py", "plugins/*/dpframe_*/**/*.py", "docs/**/*.md", "docs/*.ipynb")
    kinds = (*kinds, "*.md", "plugins/*/*.md", "specs/**/*.toml", "tests/golden/small.*")
    paths = {path for kind in kinds for path in ROOT.glob(kind)}
    found = {p: apart.findall(p.read_text(encoding="utf-8")) for p in paths}
    assert len(paths) > 300
    assert not {path: numbers for path, numbers in found.items() if numbers}


def test_every_page_is_linked() -> None:
    """From either index; a link to a directory shows the pages in it."""
    reached, waiting = set(), ["README.md", "docs/README.md"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for link in links(name):
            target = Path(os.path.normpath((ROOT / name).parent / link.partition("#")[0]))
            pages = target.glob("*.md") if target.is_dir() else [target]
            waiting += [page.relative_to(ROOT).as_posix() for page in pages]
        waiting = [name for name in waiting if name in PAGES]
    assert set(PAGES) <= reached


def test_the_index_names_every_page() -> None:
    named = {os.path.normpath(f"docs/{link.partition('#')[0]}") for link in links("docs/README.md")}
    assert set(PAGES) - {"README.md", "docs/README.md"} <= named


# --------------------------------------------------------------------------------------------------
# Complete lists


TABLES = {
    "## Top level": model.SpecTable,
    "## `[audit]`": model.AuditTable,
    "## `[pair]`": model.PairTable,
    "## `[[mechanism]]`": model.MechanismTable,
    "## `[[attack]]`, `[[estimator]]`": model.EntryTable,
    "## `[[expect]]`": model.ExpectTable,
    "## `[environments]`": model.EnvironmentTable,
    "## `[run]`": model.RunTable,
    "## `[search]`": model.SearchTable,
}


def spec_rows(table: type[model.TomlTable]) -> list[list[str]]:
    """key, type, default and meaning of a table's keys."""
    schema = table.model_json_schema(by_alias=True)
    required = schema.get("required", ())
    return [
        [
            f"`{key}`",
            type_text(of),
            "required" if key in required else default_text(of.get("default")),
            " ".join((of.get("description") or described(of, schema)).split()),
        ]
        for key, of in schema["properties"].items()
    ]


def described(of: dict[str, Any], schema: dict[str, Any]) -> str:
    return schema["$defs"][of["$ref"].rpartition("/")[2]]["description"]


def type_text(of: dict[str, Any]) -> str:
    if forms := [form for form in of.get("anyOf", ()) if form.get("type") != "null"]:
        return " or ".join(map(type_text, forms))
    if "enum" in of:
        return " | ".join(f"`{json.dumps(choice)}`" for choice in of["enum"])
    if "const" in of:
        return f"`{of['const']}`"
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    bounds = [f"{sign} {number_text(of[key])}" for key, sign in signs.items() if key in of]
    if of.get("items", {}).get("type") == "string":
        return "list of strings"
    names = {"array": "list of tables", "object": "table", None: "table"}
    return ", ".join([names.get(of.get("type"), of.get("type")), *bounds])


def number_text(number: float) -> str:
    if number > 1_000_000 and number & (number - 1) == 0:
        return f"2^{number.bit_length() - 1}"
    return f"{number:,}"


def default_text(value: Any) -> str:
    if value is None:
        return "–"
    return "empty" if isinstance(value, dict | list) else f"`{json.dumps(value)}`"


@pytest.mark.parametrize("heading", TABLES)
def test_spec_reference(heading: str) -> None:
    assert rows(section("docs/reference/spec.md", heading)) == spec_rows(TABLES[heading])


def test_command_line_reference(tables: Any) -> None:
    name = "docs/reference/command-line.md"
    group = typer.main.get_command(app)
    documented = re.findall(r"^## `dpframe (\S+)`$", page(name), flags=re.MULTILINE)
    assert documented == list(group.commands)
    shown = tables.with_options(page(name))
    for word in documented:
        below = getattr(group.commands[word], "commands", {})
        inner = re.findall(rf"^### `dpframe {word} (\S+)`$", page(name), flags=re.MULTILINE)
        assert inner == list(below)
        for command in below.values() or [group.commands[word]]:
            for parameter in command.params:
                assert f"`{parameter.opts[-1]}" in shown or f"`{parameter.name.upper()}`" in shown


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module that makes tables for the website."""
    monkeypatch.syspath_prepend(DOCS)
    yield importlib.import_module("tables")
    sys.modules.pop("tables", None)


def test_plugin_reference(tables: Any) -> None:
    name = "docs/reference/plugins.md"
    hooks = {n for n, f in vars(hookspecs).items() if hasattr(f, "dpframe_spec")}
    assert set(re.findall(r"`(\w+)\(\)`", section(name, "## Hooks"))) == hooks
    assert f"`api = {API}`" in page(name)
    listed = re.findall(r"^\* .*?: (.*)$", section(name, "## Public names"), flags=re.MULTILINE)
    exported = {text.strip("`") for line in listed for text in line.split(", ")}
    assert exported == set(dpframe.plugins.__all__)
    named = set(
        re.findall(r"\b\w+\b", " ".join(re.findall(r"`[^`]*`", page("docs/reference/api.md"))))
    )
    assert set(dpframe.__all__) - {"__version__"} <= named
    shown = tables.with_members(page(name))
    bases = ("Mechanism", "HostMechanism", "Attack", "Statistic", "Estimator", "Pair")
    for kind in (*bases, "Neighbourhood"):
        part = shown.split(f"### `{kind}`\n")[1].split("\n##")[0]
        missing = {of for of in overridable(getattr(dpframe, kind)) if f"`{of}" not in part}
        assert missing == set(), kind


COMMON = {"check", "from_params", "params", "check_definition", "name", "api", "kind", "leaves"}
COMMON |= {"may_be_parameters", "spec_names"}


def overridable(cls: type) -> set[str]:
    """Return the members that a subclass may give: all public ones beside those of every plugin."""
    names = {n for n in dir(cls) if not n.startswith("_")}
    names |= {n for base in cls.__mro__ for n in vars(base).get("__annotations__", ())}
    return {n for n in names if not n.startswith("_")} - COMMON


def test_built_in_reference(tables: Any) -> None:
    name = "docs/reference/built-ins.md"
    entries = registry.load().entries
    builtin = [entry for entry in entries if entry.distribution == registry.BUILTIN]
    documented = re.findall(r"^### `(\S+)`$", page(name), flags=re.MULTILINE)
    assert sorted(documented) == sorted(entry.name for entry in builtin)
    shown = tables.with_parameters(page(name))
    for entry in builtin:
        for row in parameters(entry.cls):
            assert f"| `{row.name}` |" in shown
            assert row.meaning


@pytest.mark.slow
def test_record_reference(tables: Any) -> None:
    documented = {key.strip("`") for key, _ in tables.record_keys(Record)}
    assert documented == set(keys(json.loads(records.dumps(varied_record()))))


FREE = {"params", "parameters", "swept", "statistic", "without"}
"""Tables whose keys a plugin, a claim or a spec decides."""


def keys(value: Any, path: str = "") -> list[str]:
    if isinstance(value, list):
        return [key for item in value for key in keys(item, f"{path}[]")]
    if not isinstance(value, dict):
        return []
    found = []
    for key, item in value.items():
        here = f"{path}.{key}".lstrip(".")
        found.append(here)
        if key not in FREE:
            found += keys(item, here)
    return found


def varied_record() -> dict[str, Any]:
    """A record that has every key: a claim, a failure, and something skipped."""

    def score(self: Any, state: Any, outputs: Any) -> Any:
        return outputs[:, 0]

    def fail(rng: np.random.Generator, data: Any, n: int) -> Any:
        raise ValueError("no")

    body = {"score": score, "gives": "score"}
    ranked = types.new_class(
        "Ranked",
        (dpframe.Attack,),
        {"name": "ranked"},
        lambda own: own.update(body),
    )
    spec = tomli.loads(BASE)
    spec["mechanism"] += [{"use": "fail"}, {"use": "copy-input", "params": {"epsilon": 0.1}}]
    spec["attack"].append({"use": "ranked"})
    spec.setdefault("run", {})["power"] = 0.8
    record = dpframe.audit(spec, plugins=[ranked, dpframe.host_mechanism(fail)])
    search = searches.spec({"use": "exceeding"}, trials=1_000)
    queried = dpframe.audit(search, plugins=[exceeding(), searches.Three])
    stated = dpframe.audit(
        searches.spec({"use": "coin"}, trials=1_000), plugins=[Coin, searches.Three]
    )
    searched = dpframe.audit(searches.spec("laplace", trials=3_000), plugins=[searches.Three])
    (one,) = searched.cells
    shown = {
        name: getattr(one.search, name)
        for name in FindingRecord.model_fields
        if hasattr(one.search, name)
    }
    choices = {"mechanism": one.mechanism, "pair": one.pair, "attack": one.attack}
    listed = FindingRecord(**choices, p_value=1.0, **shown)
    search = one.search.model_copy(update={"findings": [listed]})
    searched = searched.model_copy(update={"cells": [one.model_copy(update={"search": search})]})
    elsewhere = InstalledRecord(name="a", requirements=["b"], python="3.11", installed=["b==1"])
    cells = [*record.cells, *searched.cells, *queried.cells, *stated.cells]
    return record.model_copy(update={"cells": cells, "environments": [elsewhere]})


class Coin(dpframe.HostMechanism, name="coin"):
    """A coin that states its distribution."""

    def claim(self, pair: Any) -> dpframe.PureDP:
        return dpframe.PureDP(1.0)

    def choices(self, data: Any) -> Any:
        return np.log([0.5, 0.5])

    def release(self, rng: np.random.Generator, data: Any) -> int:
        return int(rng.integers(2))


def exceeding() -> type:
    """A mechanism whose query changes by more than its noise is made for."""
    body = {
        "sensitivity": 0.5,
        "query": lambda self, data: data.sum(),
        "release": lambda self, key, data: data,
    }
    return types.new_class(
        "Exceeding", (dpframe.Mechanism,), {"name": "exceeding"}, lambda own: own.update(body)
    )


def test_the_example_mechanism_is_short() -> None:
    name = "docs/how-to/write-a-mechanism.md"
    code, project, *_ = (b.text for b in blocks(name) if "file" in b.options)
    assert len([line for line in code.split("\n") if line.strip()]) <= 10
    tables = tomli.loads(project)
    beyond = project.split("[project.entry-points", 1)[1]
    assert len(beyond.strip().split("\n")) <= 3
    assert set(tables["project"]["entry-points"]) == {hookspecs.PROJECT}
