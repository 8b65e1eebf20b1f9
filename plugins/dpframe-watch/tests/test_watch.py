"""New audits run once, a failure costs its own row, and the site says no more than it may."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import dpframe_watch.registry
import made
import pytest
from dpframe_watch import audits, site
from dpframe_watch.commands import watch_app
from dpframe_watch.registry import AuditTask, LibraryRegistry
from dpframe_watch.site import COLOURS, SiteRow, verdict_of, words_of
from typer.testing import CliRunner

from dpframe import DpframeError, load

REPORT = 'reports = { "1.0" = "https://example.org/issues/1" }'


def watch(registry: Path, out: str = "site", *words: str) -> int:
    site = registry.parent / out
    done = CliRunner().invoke(watch_app, [str(registry), "--out", str(site), *words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def page(registry: Path, out: str = "site") -> str:
    return (registry.parent / out / "index.html").read_text(encoding="utf-8")


def test_a_command_is_told_how_it_ended(tmp_path, pretended):
    """It gets violations without a public report, which the site leaves out."""
    script = tmp_path / "listener.py"
    script.write_text("import pathlib, sys\npathlib.Path(sys.argv[1]).write_text(sys.stdin.read())")
    told = tmp_path / "told"
    registry = made.write_registry(tmp_path)
    words = "--notify", f"{sys.executable} '{script}' '{told}'"
    assert watch(registry, "site", *words) == 1
    outcome = json.loads(told.read_text())
    assert outcome["exit_code"] == outcome["violated"] == outcome["consistent"] == 1
    assert outcome["unreported"] == ["dpframe-tinylib 1.0 noisy-sum"]
    assert outcome["site"] == str(tmp_path / "site")


def test_what_is_new_is_audited_once_and_equal_states_give_equal_bytes(
    tmp_path, pretended, monkeypatch
):
    registry = made.write_registry(tmp_path, more=REPORT)
    assert watch(registry) == 0
    assert pretended.calls == ["build 1.0", "run 1.0", "build 2.0", "run 2.0"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    before = tree(tmp_path / "site")
    assert watch(registry) == watch(registry, "other") == 0
    assert len(pretended.calls) == 4
    assert tree(tmp_path / "site") == tree(tmp_path / "other") == before
    assert "2023-11-14" in page(registry)
    registry.write_text(registry.read_text().replace('"2.0"]', '"2.0", "2.1"]'))
    assert watch(registry) == 0
    assert pretended.calls[4:] == ["build 2.1", "run 2.1"]


def test_another_question_is_audited_again_and_old_records_stay(tmp_path, pretended, monkeypatch):
    registry = made.write_registry(tmp_path, '["2.0"]')
    watch(registry)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    (tmp_path / "noisy_sum.py").write_text(made.ADAPTER + "\n", encoding="utf-8")
    watch(registry)
    monkeypatch.setattr(dpframe_watch.registry, "__version__", "99")
    watch(registry)
    assert pretended.calls.count("run 2.0") == 3
    links = re.findall(r'href="records/(\w+)/report.html">([^<]*)', page(registry))
    assert [told for _, told in links] == ["report", "earlier, 2027-01-15", "earlier, 2023-11-14"]
    assert len({key for key, _ in links}) == 3


def test_what_cannot_be_built_costs_its_row(tmp_path, pretended, monkeypatch):
    registry = made.write_registry(tmp_path, '["0.9", "2.0"]')
    pretended.says["0.9"] = f"environment '0.9': <script>no</script>\n {tmp_path}/x 0x7f00aa00bb"
    assert watch(registry) == 3
    assert "could not be audited" in page(registry)
    assert "&lt;script&gt;no&lt;/script&gt; …x … (2023-11-14)" in page(registry)
    assert "no violation found" in page(registry)
    before = tree(tmp_path / "site")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    assert watch(registry) == 3
    assert tree(tmp_path / "site") == before
    pretended.says.clear()
    assert watch(registry) == 0
    assert "could not be audited" not in page(registry).replace("! could not be audited ·", "")


def test_an_audit_that_fails_is_repeated_only_on_request(tmp_path, pretended, monkeypatch):
    registry = made.write_registry(tmp_path, '["2.0"]')
    works, runs = pretended.__call__, []

    def fails(words, folder, seconds=None):
        if words[0] == "run":
            runs.append(seconds)
            return audits.Done(-1, "", timed_out=True)
        return works(words, folder, seconds)

    monkeypatch.setattr(audits, "call", fails)
    assert [watch(registry), watch(registry), watch(registry, "site", "--retry")] == [3, 3, 3]
    assert runs == [3600.0, 3600.0]
    assert "the audit took longer than 3600 s" in page(registry)


def test_an_interrupted_run_goes_on(tmp_path, pretended):
    registry = made.write_registry(tmp_path, more=REPORT)
    pretended.stops_at = "2.0"
    assert watch(registry) not in (0, 1, 3)
    pretended.stops_at = ""
    # It may also end between the record and the state.
    state = audits.WatchState(tmp_path / "registry.state")
    key = state.results[0].key
    del state._results[key]
    state._save()
    assert watch(registry) == 0
    assert pretended.calls == [
        *("build 1.0", "run 1.0", "build 2.0", "run 2.0") * 1,
        "run 2.0",
    ] or (pretended.calls.count("run 1.0") == 1 and pretended.calls.count("run 2.0") == 2)
    assert not [*(tmp_path / "registry.state" / "work").iterdir()]


def test_latest_is_the_version_that_is_installed(tmp_path, pretended):
    registry = made.write_registry(tmp_path, '["2.0", "latest"]')
    assert watch(registry) == 0
    assert pretended.calls == ["build 2.0", "run 2.0", "build 2.0"]  # equal environments
    pretended.newest = "2.1"
    pretended.verdicts["2.1"] = "broken"
    assert watch(registry) == 1
    assert pretended.calls[3:] == ["build 2.1", "run 2.1"]
    assert [row for row in ("2.1", "2.0", "latest") if f">{row}<" in page(registry)] == [
        "2.1",
        "2.0",
    ]


def test_a_violation_without_a_public_report_is_withheld(tmp_path, pretended):
    registry = made.write_registry(tmp_path)
    assert watch(registry, "site", "--private") == 1
    key = re.search(r">✗ violated;.*?records/(\w+)/", page(registry), re.DOTALL)[1]
    assert "Private, not for publication" in page(registry)
    assert f"records/{key}/witness.py" in tree(tmp_path / "site")
    (tmp_path / "site" / "CNAME").write_text("mine")

    assert watch(registry) == 1
    shown = tree(tmp_path / "site")
    assert shown.pop("CNAME")
    assert not [name for name, text in shown.items() if key in name or key.encode() in text]
    assert not [name for name, text in shown.items() if b"2.4" in text and "record" not in name]
    assert "no result" in page(registry)

    made.write_registry(tmp_path, more=REPORT)
    assert watch(registry) == 0
    assert "https://example.org/issues/1" in page(registry)
    assert "Private" not in page(registry)


def test_a_withheld_record_leaves_a_site_whose_writing_was_interrupted(
    tmp_path, pretended, monkeypatch
):
    registry = made.write_registry(tmp_path)

    def stop(source, target):
        shutil.copyfile(source, target)
        if source.name == "witness.py":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(site, "shutil", SimpleNamespace(copyfile=stop))
        assert watch(registry, "site", "--private") not in (0, 1, 3)
    assert [name for name in tree(tmp_path / "site") if name.endswith("witness.py")]
    assert watch(registry) == watch(registry, "other") == 1
    assert tree(tmp_path / "site") == tree(tmp_path / "other")


class Checker(HTMLParser):
    """Every element that is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.handle_startendtag(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        assert tag not in ("script", "iframe", "form")
        self.links += [v for k, v in attributes if k in ("href", "src")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_pages_are_well_formed_and_links_lead_somewhere(tmp_path, pretended):
    registry = made.write_registry(tmp_path, '["0.9", "1.0", "2.0"]', REPORT)
    registry.write_text(
        registry.read_text().replace("schema = 1", 'schema = 1\nurl = "https://a.b/c"')
    )
    pretended.says["0.9"] = "]]> \"quoted\" & <b>'bold' \x1b[31m\x00\u202e"
    watch(registry)
    site = tmp_path / "site"
    checker = Checker()
    checker.feed(page(registry))
    assert not checker.open
    html = ElementTree.fromstring(page(registry))  # it is XML too
    anchors = {one.get("id") for one in html.iter()}
    assert len(checker.links) > 8
    for link in checker.links:
        if link.startswith("#"):
            assert link[1:] in anchors
        elif not link.startswith("https://example.org/"):
            assert (site / link).is_file(), link
    atom = "{http://www.w3.org/2005/Atom}"
    feed = ElementTree.fromstring((site / "feed.xml").read_bytes())
    assert feed.findtext(f"{atom}title") == "Tiny <libraries> & more"
    assert len(feed.findall(f"{atom}entry")) == 2
    for name in ("title", "id", "updated"):
        assert all(entry.findtext(f"{atom}{name}") for entry in (feed, *feed.iter(f"{atom}entry")))
    for link in feed.iter(f"{atom}link"):
        assert link.get("href").startswith("https://a.b/c/")


def test_each_row_of_the_page_has_a_name_of_its_own():
    tasks = [AuditTask("a-b", "c", "1"), AuditTask("a", "b-c", "1"), AuditTask("lib_a", "x", "1")]
    tasks += [AuditTask("lib-a", "x", "1"), AuditTask("lib_5f_a", "x", "1")]
    assert len({SiteRow(task, "", "", "").anchor for task in tasks}) == len(tasks)


@pytest.mark.parametrize("text", ["2026-11-24", "2026-11-24T01:02:03", "01:02:03.5"])
def test_dates_in_a_registry_are_written_as_they_were_read(text):
    value = {"since": tomllib.loads(f"it = {text}")["it"]}
    assert tomllib.loads(f"it = {dpframe_watch.registry.toml(value)}")["it"] == value


def test_a_badge_says_what_was_shown_and_is_not_green(tmp_path, pretended):
    registry = made.write_registry(tmp_path, more=REPORT)
    watch(registry)
    path = tmp_path / "site" / "dpframe-tinylib" / "noisy-sum" / "badge.svg"
    badge = ElementTree.fromstring(path.read_bytes())
    assert re.fullmatch(
        r"dpframe-tinylib 2\.0: no violation found; certified ε ≥ 0\.\d+, claimed 1",
        badge.get("aria-label"),
    )
    text = path.read_text(encoding="utf-8")
    assert COLOURS["consistent"] in text
    assert "private" not in text
    for colour in COLOURS.values():
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        assert green <= max(red, blue)
    # An older version's result never stands for a newer one without a result.
    registry.write_text(registry.read_text().replace('"2.0"]', '"2.0", "10.0"]'))
    pretended.says["10.0"] = "no"
    watch(registry)
    assert 'aria-label="dpframe-tinylib 10.0: no result"' in path.read_text(encoding="utf-8")
    pretended.says.clear()
    pretended.verdicts["10.0"] = "broken"
    watch(registry)
    assert 'aria-label="dpframe-tinylib 10.0: no result"' in path.read_text(encoding="utf-8")
    watch(registry, "site", "--private")
    assert 'aria-label="dpframe-tinylib 10.0: violated; ' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("state", "claim", "lower", "words"),
    [
        ("consistent", 1.0, 0.43999, "no violation found; certified ε ≥ 0.439, claimed 1"),
        ("consistent", 1.0, 0.0, "no violation found; certified ε ≥ 0, claimed 1"),
        ("consistent", 1.0, 3e-5, "no violation found; certified ε ≥ 3.00e-5, claimed 1"),
        ("violated", 1.0, 1.00012, "violated; certified ε ≥ 1.0001, claimed 1"),
        ("violated", 1.0, 12.3456, "violated; certified ε ≥ 12.3, claimed 1"),
        ("inconclusive", 1.0, 0.1, "inconclusive: too few draws to decide"),
        ("", None, 0.1, "no verdict"),
        ("violated", 1.0, 0.9, "violated, see the report"),
        ("violated", 1.0, None, "violated, see the report"),
        ("violated", None, 0.9, "violated; certified ε ≥ 0.900"),
    ],
)
def test_the_words_of_a_result(state, claim, lower, words):
    assert words_of(state, claim, lower) == words


MISTAKES = {
    "versions = [": ("versiones = [", "libraries.dpframe-tinylib.versions: field required"),
    'module = "noisy_sum.py"': ('module = "../x.py"', "module: string should match pattern"),
    "module =": ("spec =", "`epsilon` applies only with `module`"),
    'pair = { use = "zeros-ones" }': ("", "needs either `pair` or `search`"),
    "epsilon = 1.0\nparams": ("params", "needs `epsilon`, the claim"),
    "noisy_sum.py": ("gone.py", "there is no file gone.py"),
    "dpframe-tinylib.adapters": ("other.adapters", "libraries.dpframe-tinylib.adapters: field"),
    "schema = 1": ("schema = 2", "schema: input should be 1"),
    '"Tiny <': ('"\\u0008 <', "title: string should match pattern"),
    '"1.0"': ('"1/0"', "versions.0: string should match pattern"),
    "title =": ("title", "expected '=' after a key"),
}


@pytest.mark.parametrize("old", MISTAKES)
def test_mistakes_in_a_registry(tmp_path, old):
    registry = made.write_registry(tmp_path)
    new, expected = MISTAKES[old]
    registry.write_text(registry.read_text().replace(old, new, 1))
    with pytest.raises(DpframeError) as found:
        LibraryRegistry(registry)
    assert expected.lower() in str(found.value).lower()
    assert str(found.value).startswith(f"{registry}: ")


@pytest.mark.parametrize("name", ["index.html", "FEED.xml", "records", "DPframe-tinylib"])
def test_a_library_whose_name_the_site_uses_is_refused(name, tmp_path):
    registry = made.write_registry(tmp_path)
    text = registry.read_text().partition("[libraries")
    other = "".join(text[1:]).replace("dpframe-tinylib", f'"{name}"')
    registry.write_text(registry.read_text() + other)
    with pytest.raises(DpframeError, match=f"libraries.{name}: .*; rename it, and set its `req"):
        LibraryRegistry(registry)


def test_adapters_that_differ_in_case_alone_are_refused(tmp_path):
    registry = made.write_registry(tmp_path)
    other = registry.read_text().partition("[libraries.dpframe-tinylib.adapters")
    registry.write_text(registry.read_text() + "".join(other[1:]).replace("noisy-sum", "Noisy-Sum"))
    with pytest.raises(DpframeError, match="Noisy-Sum: differs from noisy-sum in upper"):
        LibraryRegistry(registry)


@pytest.mark.parametrize(
    "name", ["a/b", "..", "../up", "a b", "é", ".hidden", "a\\b", "", "x" * 81]
)
@pytest.mark.parametrize("place", ["dpframe-tinylib", "adapters.noisy-sum"])
def test_names_that_would_leave_the_site_are_refused(name, place, tmp_path):
    registry = made.write_registry(tmp_path)
    new = f"adapters.'{name}'" if "." in place else f"'{name}'"
    registry.write_text(registry.read_text().replace(place, new))
    with pytest.raises(DpframeError, match="libraries"):
        LibraryRegistry(registry)


KILLED = """
import itertools, os, pathlib, shutil, signal, sys
from dpframe_watch.audits import WatchState
from dpframe_watch.registry import LibraryRegistry
from dpframe_watch.site import Site

folder = pathlib.Path(sys.argv[1])
registry, state = LibraryRegistry(folder / "registry.toml"), WatchState(folder / "registry.state")
private = Site(registry, state, private=True)
site, out, left = Site(registry, state, private=False), folder / "site", 0


def tree(place):
    files = (path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}


def kill(event, arguments):
    global left
    if event == "open" and str(arguments[0]).startswith(str(out)) and arguments[2] & os.O_ACCMODE:
        left -= 1
        if left == 0:
            with open(arguments[0], "w") as file:
                file.write("half")
            os.kill(os.getpid(), signal.SIGKILL)


site.write(folder / "whole")
for number in itertools.count(1):
    shutil.rmtree(out, ignore_errors=True)
    private.write(out)
    child = os.fork()
    if not child:
        left = number
        sys.addaudithook(kill)
        site.write(out)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
    site.write(out)
    assert tree(out) == tree(folder / "whole"), number
print(number - 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test forks")
def test_a_site_whose_writing_is_killed_is_whole_after_the_next_run(tmp_path, pretended):
    """A public site is written over a private one, and killed at every file that it writes."""
    made.write_registry(tmp_path)
    watch(tmp_path / "registry.toml")
    shutil.rmtree(tmp_path / "site")
    code = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= len(tree(tmp_path / "whole"))


def test_a_spec_runs_beside_its_files_and_in_the_environment_of_the_version(
    tmp_path, pretended, monkeypatch
):
    registry = made.write_registry(tmp_path, '["2.0"]')
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "audit.toml").write_text("schema = 1\n")
    text = registry.read_text()
    text = text[: text.index("module =")]
    text += 'spec = "in/audit.toml"\nplugins = ["noisy_sum.py"]\n'
    registry.write_text(text)
    seen = []
    works = pretended.__call__

    def call(words, folder, seconds=None):
        seen.append(words)
        return works(words, folder, seconds)

    monkeypatch.setattr(audits, "call", call)
    assert watch(registry) == 0
    (words,) = (words for words in seen if words[0] == "run")
    table = 'environments.dpframe-tinylib 2.0={ "requirements" = ["dpframe-tinylib==2.0"] }'
    assert words[1] == "in/audit.toml"
    assert {table, "audit.confidence=0.999"} < {*words}


def command(tmp_path, monkeypatch, lines):
    """Let `call` run a script instead of dpframe."""
    path = tmp_path / "script"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o700)
    monkeypatch.setattr(audits.sys, "executable", str(path))
    return path


@pytest.mark.parametrize("code", [130, 143])
def test_a_command_that_a_signal_ended_has_not_failed(code, tmp_path, monkeypatch):
    command(tmp_path, monkeypatch, f"exit {code}")
    with pytest.raises(KeyboardInterrupt):
        audits.call(["run"], tmp_path)
    command(tmp_path, monkeypatch, "echo why >&2; exit 2")
    assert audits.call(["run"], tmp_path) == (2, "why\n", False)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not end children")
def test_no_audit_outlives_a_killed_watch(tmp_path, monkeypatch):
    (tmp_path / "dpframe.py").write_text(  # the folder of the command comes first
        "import os, time\nopen('new', 'w').write(str(os.getpid()))\nos.rename('new', 'id')\n"
        "time.sleep(600)\n"
    )
    code = "from pathlib import Path; from dpframe_watch import audits; "
    code += f"audits.call(['run'], Path({str(tmp_path)!r}))"
    parent = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 120
    while not (tmp_path / "id").exists() and time.monotonic() < until:
        assert parent.poll() is None
        time.sleep(0.02)
    status = Path("/proc") / (tmp_path / "id").read_text().strip() / "stat"
    parent.kill()
    parent.wait()

    def runs() -> bool:
        try:
            return ") Z " not in status.read_text()
        except OSError:
            return False

    until = time.monotonic() + 60
    while runs() and time.monotonic() < until:
        time.sleep(0.02)
    assert not runs()


def test_what_another_process_added_is_not_lost(tmp_path, pretended):
    registry = made.write_registry(tmp_path, '["2.0"]')
    early = audits.WatchState(tmp_path / "registry.state")
    assert watch(registry) == 0
    with early.alone():
        assert len(early.results) == 1


def test_one_process_at_a_time(tmp_path, pretended):
    registry = made.write_registry(tmp_path)
    state = audits.WatchState(tmp_path / "registry.state")
    with state.alone(), pytest.raises(DpframeError, match="another process is using it"):
        watch(registry)


def test_a_damaged_state_is_refused(tmp_path, pretended):
    registry = made.write_registry(tmp_path)
    state = tmp_path / "registry.state"
    state.mkdir()
    for content, told in (("{", "not JSON"), ('{"schema": 2}', "not a state")):
        (state / "state.json").write_text(content)
        with pytest.raises(DpframeError, match=told):
            watch(registry)


def test_the_verdict_of_a_record_is_that_of_its_worst_cell(records):
    good = load(records["good"])
    cell = good.cells[0]

    def of(*verdicts: str | None) -> str:
        cells = [cell.model_copy(update={"verdict": verdict}) for verdict in verdicts]
        return verdict_of(good.model_copy(update={"cells": cells}))[0]

    assert of("consistent", "consistent") == "consistent"
    assert of("consistent", "inconclusive") == "inconclusive"
    assert of("consistent", "violated", "inconclusive") == "violated"
    assert of("consistent", None) == "consistent"
    assert of(None) == of() == ""
    failed = cell.model_copy(update={"status": "failed", "verdict": None})
    assert verdict_of(good.model_copy(update={"cells": [failed]})) == ("", None)


def test_what_the_registry_has_no_more_leaves_only_records(tmp_path, pretended):
    registry = made.write_registry(tmp_path, '["1.9", "2.0", "3.0"]')
    pretended.says["3.0"] = "no"
    assert watch(registry) == 3
    made.write_registry(tmp_path, '["2.0"]')
    (tmp_path / "registry.state" / "work" / "abandoned").mkdir(parents=True)
    assert watch(registry) == 0
    assert not [*(tmp_path / "registry.state" / "work").iterdir()]
    assert [
        version
        for version in ("1.9", "2.0", "3.0")
        if f'<td data-name="version">{version}<' in page(registry)
    ] == ["1.9", "2.0"]


def test_the_registry_of_the_documentation_can_be_read(tmp_path):
    path = Path(__file__).parents[3] / "docs" / "how-to" / "audit-a-version.md"
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[1:]  # the first is a spec
    (tmp_path / "noisy_sum.py").touch()
    (tmp_path / "registry.toml").write_text("\n".join(blocks), encoding="utf-8")
    registry = LibraryRegistry(tmp_path / "registry.toml")
    (task,) = registry.tasks("statlib", "1.0")
    assert registry.content.libraries["statlib"].adapters["noisy-sum"].reports
    assert tomllib.loads(registry.spec(task))["mechanism"][0]["params"]["epsilon"] == 1.0
