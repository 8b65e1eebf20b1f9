"""Environments: built from local wheels, known by their requirements, never built by a run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.command_line import dpframe, worked

from dpframe import environments as place
from dpframe.common import machine
from dpframe.environments import Wanted
from dpframe.errors import DpframeError

SPEC = """
schema = 1
[audit]
name = "versions"
trials = 300
[environments]
"lib 1.0" = ["noisylib==1.0"]
"lib 2.0" = {requirements = ["noisylib>=2"], python = "OWN"}
[pair]
use = "zeros-ones"
[[mechanism]]
use = "program"
environment = "lib 1.0"
params = {module = "box.py", epsilon = 1.0}
[[attack]]
use = "identity"
[[estimator]]
use = "order-statistics"
""".replace("OWN", "{}.{}".format(*sys.version_info))

BOX = "def prepare(params, data):\n    return lambda: 1.0\n"


def wheel(folder: Path, version: str) -> None:
    """A package of one line."""
    about = f"noisylib-{version}.dist-info"
    with zipfile.ZipFile(folder / f"noisylib-{version}-py3-none-any.whl", "w") as file:
        file.writestr("noisylib.py", f"SCALE = {version}\n")
        head = f"Metadata-Version: 2.1\nName: noisylib\nVersion: {version}\n"
        file.writestr(f"{about}/METADATA", head)
        tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        file.writestr(f"{about}/WHEEL", tag)
        file.writestr(f"{about}/RECORD", "")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec, a box, and a place for environments; pip knows no registry."""
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "box.py").write_text(BOX, encoding="utf-8")
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "2.0"):
        wheel(wheels, version)
    monkeypatch.setenv(place.SWITCH, str(tmp_path / "environments"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setattr(place.shutil, "which", lambda name: None)  # no uv, wherever this runs
    return tmp_path


def whole(wanted: Wanted, *installed: str) -> Path:
    """An environment that looks as if it had been built."""
    folder = wanted.folder
    python = place.interpreter_in(folder)
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    place._finish(wanted, "3.11.0", installed)
    return folder


ONE = Wanted("lib 1.0", ("noisylib==1.0",))


@pytest.mark.slow  # makes environments, with pip: ten seconds
def test_building_listing_removing(here: Path) -> None:
    done = dpframe("environments", "build", "spec.toml", cwd=here)
    assert done.returncode == 0, done.stderr
    assert "lib 2.0: building with venv and pip: noisylib>=2" in done.stderr
    assert "noisylib==1.0" in done.stdout
    written = (here / "lib-2.0.lock").read_text(encoding="utf-8")
    assert "\nnoisylib==2.0\n" in written
    assert "://" not in written
    entry = place.read(ONE.folder)
    assert not entry.problem
    assert "noisylib==1.0" in place.ask(str(entry.interpreter))[1]

    # An existing environment is left alone, and its lock is written again if it is gone.
    (here / "lib-1.0.lock").unlink()
    again = dpframe("environments", "build", "spec.toml", "lib 1.0", cwd=here)
    assert (again.returncode, again.stderr) == (0, "lib 1.0: is there\n")
    assert (here / "lib-1.0.lock").exists()

    # A lock says which versions are installed, for the same requirements.
    path = here / "lib-2.0.lock"
    path.write_text(written.replace("noisylib==2.0", "noisylib==2.5"), encoding="utf-8")
    assert dpframe("environments", "remove", "lib 2.0", cwd=here).returncode == 0
    refused = dpframe("environments", "build", "spec.toml", "lib 2.0", cwd=here)
    assert refused.returncode == 2
    assert "environment 'lib 2.0': noisylib>=2 cannot be installed\n" in refused.stderr
    assert "--allow-source" in refused.stderr
    assert not [e for e in place.every() if e.name == "lib 2.0"]

    listed = json.loads(dpframe("environments", "list", "--json", cwd=here).stdout)
    assert [(e["name"], e["requirements"]) for e in listed] == [("lib 1.0", ["noisylib==1.0"])]
    assert dpframe("environments", "remove", "--all", cwd=here).stdout == "lib 1.0: removed\n"
    assert dpframe("environments", "list", cwd=here).stdout == "no environment was built\n"


def test_another_list_is_another_environment() -> None:
    others = [
        ONE._replace(requirements=("noisylib==1.1",)),
        ONE._replace(python="3.9"),
        ONE._replace(requirements=(*ONE.requirements, "numpy")),
    ]
    assert len({one.folder for one in (ONE, *others)}) == 4
    two = ONE._replace(requirements=("b", "a"))
    assert two.folder == two._replace(requirements=("a", "b")).folder


def test_an_environment_that_is_half_there_is_none(here: Path) -> None:
    how = "dpframe environments build spec.toml"
    assert f"'lib 1.0' is not built; run: {how}" in place.found(ONE, how).problem
    folder = ONE.folder
    (folder / "bin").mkdir(parents=True)
    assert "(it is unfinished)" in place.found(ONE, how).problem
    assert "lib-1.0" in dpframe("environments", "list", cwd=here).stdout
    folder.joinpath("bin").rmdir()
    folder.rmdir()
    whole(ONE, "noisylib==1.0")
    found = place.found(ONE, how)
    assert (found.problem, found.installed) == ("", ("noisylib==1.0",))
    place.interpreter_in(folder).unlink()
    assert "(its Python is gone)" in place.found(ONE, how).problem


def test_a_build_that_fails_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], *_: Any) -> None:
        folder = Path(command[-1])
        if command[1:3] == ["-m", "venv"]:
            (folder / "bin").mkdir()
            return
        raise DpframeError("no")

    monkeypatch.setattr(place, "_run", fail)
    with pytest.raises(DpframeError, match="no"):
        place.build(ONE, here / "spec.toml", allow_source=False, progress=lambda _: None)
    assert place.every() == []


def test_two_builds_of_one_environment_wait_for_each_other(here: Path) -> None:
    whole(ONE, "noisylib==1.0")
    said: list[str] = []
    waits = threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        if "waiting" in text:
            waits.set()

    def build() -> None:
        place.build(ONE, here / "spec.toml", allow_source=False, progress=tell)

    other = threading.Thread(target=build)
    with place._alone(ONE.folder, said.append):
        other.start()
        assert waits.wait(60)
        assert not (here / "lib-1.0.lock").exists()
    other.join(60)
    assert said[-1] == "lib 1.0: is there"
    assert (here / "lib-1.0.lock").exists()


def test_a_lock_of_other_requirements_does_not_count(tmp_path: Path) -> None:
    path = place.lock_of(tmp_path / "spec.toml", ONE)
    path.write_text(place.lock_text(ONE, "3.11.1", ["noisylib==1.0"]), encoding="utf-8")
    assert path.name == "lib-1.0.lock"
    assert place.lock_is_of(path, ONE)
    assert not place.lock_is_of(path, ONE._replace(requirements=("noisylib",)))
    assert not place.lock_is_of(path, ONE._replace(python="3.9"))


def test_a_run_installs_nothing_and_says_what_to_do(here: Path) -> None:
    words = ("run", "spec.toml", "--plugin", "box.py", "--quiet")
    done = dpframe(*words, "--json", cwd=here)
    assert done.returncode == 3
    record = json.loads(done.stdout)
    (cell,) = record["cells"]
    how = "environment 'lib 1.0' is not built; run: dpframe environments build spec.toml"
    assert (cell["status"], cell["reason"]) == ("failed", how)
    assert record["summary"]["m"] == 1  # a test that was planned counts
    assert not place.root().exists()
    planned = dpframe("plan", "spec.toml", "--plugin", "box.py", cwd=here)
    assert planned.returncode == 0
    assert "is not built" in " ".join(planned.stdout.split())


def test_the_command_line_brings_an_environment(here: Path) -> None:
    named = ("--set", 'environments.lib 3.1=["noisylib==3.1"]')
    used = ("--set", "mechanism.environment=lib 3.1")
    words = ("run", "spec.toml", "--plugin", "box.py", "--quiet", "--json")
    record = json.loads(dpframe(*words, *named, *used, cwd=here).stdout)
    (cell,) = record["cells"]
    assert "environment 'lib 3.1' is not built" in cell["reason"]
    assert [one["requirements"] for one in record["environments"]] == [["noisylib==3.1"]]
    assert "there is no environment 'lib 3.1'" in dpframe(*words, *used, cwd=here).stderr


MISTAKES = {
    "no such environment": ('environment = "lib 1.0"', 'environment = "lib 3"', "did you mean"),
    "an option for pip": ('["noisylib==1.0"]', '["--index-url"]', "should be a name with"),
    "an address": ('["noisylib==1.0"]', '["a @ http://b/c"]', "should be a name with"),
    "no version of Python": ('python = "3.', 'python = "2.', "should be a version of Python 3"),
    "no list": ('["noisylib==1.0"]', "1", "should be a table"),
    "unknown key": ("python = ", "pythn = ", "pythn: unknown key"),
    "files alike": (
        '"lib 2.0" =',
        '"lib/1.0" =',
        "would have the same names as those of 'lib 1.0'",
    ),
    "no program": ('module = "box.py", ', "", "'module' of mechanism 'program' is missing"),
    "in this process": ("program", "laplace", "mechanism 'laplace' runs in this process"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_in_a_spec(what: str, here: Path) -> None:
    old, new, expected = MISTAKES[what]
    (here / "spec.toml").write_text(SPEC.replace(old, new), encoding="utf-8")
    done = dpframe("check", "spec.toml", "--plugin", "box.py", cwd=here)
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stderr.startswith("spec.toml:")


def test_a_spec_alone_runs_no_program(here: Path) -> None:
    from dpframe.interfaces import mechanism as program_files

    program_files._given.clear()
    done = dpframe("check", "spec.toml", cwd=here)
    assert done.returncode == 2
    assert "a spec never runs code on its own" in done.stderr
    assert "--plugin box.py" in done.stderr


def test_mistakes_of_the_call(here: Path) -> None:
    def says(*words: str) -> str:
        done = worked(*words, cwd=here)
        assert done.returncode == 2
        return done.stderr

    check = ("check", "spec.toml", "--plugin", "box.py")
    assert "should be NAME=PATH" in says(*check, "--python", "lib 1.0")
    assert "no mechanism runs in" in says(*check, "--python", "lib=/bin/true")
    assert "there is no environment 'lib 3.0'" in says(
        "environments", "build", "spec.toml", "lib 3.0"
    )
    assert "give names, or --all" in says("environments", "remove")
    (here / "none.toml").write_text("schema = 1\n", encoding="utf-8")
    assert "has no [environments]" in says("environments", "build", "none.toml")


@pytest.mark.parametrize(
    ("path", "why"),
    [("/bin/absent", "no such file"), ("/bin/true", "not a python"), (__file__, "denied")],
)
def test_an_interpreter_that_is_none(path: str, why: str) -> None:
    found = place.named("mine", path)
    assert why in found.problem.lower()
    assert found.interpreter == ""


def test_an_interpreter_of_ones_own() -> None:
    found = place.named("mine", sys.executable)
    assert found.problem == ""
    assert found.python == "{}.{}.{}".format(*sys.version_info)
    assert any(package.startswith("numpy==") for package in found.installed)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not end children")
def test_no_installer_outlives_a_killed_build(tmp_path: Path) -> None:
    installer = "import os, time; open('new', 'w').write(str(os.getpid())); "
    installer += "os.rename('new', 'id'); time.sleep(600)"
    code = "import sys; from dpframe import environments; "
    code += f"environments._run([sys.executable, '-c', {installer!r}], None)"
    build = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    until = time.monotonic() + 120
    while not (tmp_path / "id").exists() and time.monotonic() < until:
        assert build.poll() is None
        time.sleep(0.02)
    number = int((tmp_path / "id").read_text())
    assert machine.running(number)
    build.kill()
    build.wait()
    until = time.monotonic() + 60
    while machine.running(number) and time.monotonic() < until:
        time.sleep(0.02)
    assert not machine.running(number)
