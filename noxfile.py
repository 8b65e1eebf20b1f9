"""The steps that every change must pass. `nox -s lint` runs one; `.ci/run` runs all.

nox itself lives in another environment, because it needs a newer attrs than dp-accounting allows.
Steps share environments in `.nox/`, or in the folder that ENVIRONMENTS names. FIFTH, 0 to 4 or
"all", selects slow tests, planted mistakes and lines of calibration; by default the date of the
commit does, so five days cover everything.
"""

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"  # `enter` makes environments that steps share

ENVIRONMENTS = Path(os.environ.get("ENVIRONMENTS", ".nox")).resolve()
ROOT = Path(__file__).parent
PLUGINS = [f"./{folder}" for folder in sorted(Path("plugins").glob("*")) if folder.is_dir()]
COMMAND = r"^pip install (?P<requirements>.*\[test\]') && pytest(?P<options>.*)$"
README = re.search(COMMAND, Path("README.md").read_text(encoding="utf-8"), re.MULTILINE)
MAIN = ["-e", ".", *shlex.split(README["requirements"])]
FULL = [*MAIN, "-e", ".[all,dev,docs]", "jax-privacy>=2", "xarray", "pytest-split"]
FULL += [*PLUGINS, *(f"{folder}[test]" for folder in PLUGINS)]  # pip wants both for local paths
SMOKE = shlex.split("""
    tests/test_cli.py tests/test_registry.py tests/engine/test_run.py tests/results/test_verdict.py
    tests/scores tests/stats/test_binomial.py tests/stats/test_joint.py
""")
OF_PLUGINS = ("tests/test_golden.py", "tests/test_specs.py")
OR_NO_TESTS = [0, 5]  # exit codes of pytest for a suite that may have no test in this fifth

GIT = "git log -1 --format=%ct 2>/dev/null"  # prints nothing without git
DATE = subprocess.run(GIT, shell=True, capture_output=True, check=False).stdout
FIFTH = os.environ.get("FIFTH") or str(int(DATE or 0) // 86400 % 5)
NUMBER = [] if FIFTH == "all" else ["--fifth", FIFTH]


def split(suite: int = 0) -> list[str]:
    """Return options for a fifth; small suites have larger ones, and not all on the same day."""
    group = "" if FIFTH == "all" else str((int(FIFTH) + suite) % 5 + 1)
    words = shlex.split(f"--splits 5 --splitting-algorithm least_duration --group {group}")
    return words if group else []


def enter(session: nox.Session, name: str, *words: str, python: str = sys.executable) -> None:
    """Enter an environment, which the first step that needs it makes."""
    folder = ENVIRONMENTS / name
    installed = folder / "installed.txt"
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two steps run at a time
        if not installed.exists() or installed.read_text() != shlex.join(words):
            session.run(python, "-m", "venv", "--clear", str(folder))
            pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-compile")
            session.run(*pip, *words)  # Python compiles what is imported, a small part
            installed.write_text(shlex.join(words))
    os.environ.update(VIRTUAL_ENV=str(folder), FIFTH=FIFTH)
    os.environ.setdefault("DPFRAME_TEST_CACHE", str(ENVIRONMENTS / "compiled"))
    os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests as the README says."""
    enter(session, "main", *MAIN)
    session.run("pytest", *shlex.split(README["options"]))


@nox.session
def slow(session: nox.Session) -> None:
    """Run the tests of full size."""
    enter(session, "main", *MAIN)
    session.run("pip", "install", "-q", "pytest-split")
    os.environ["PYTHONPATH"] = str(ROOT / "tests/quality")
    session.run("pytest", "-m", "slow", "-p", "in_time", *split())


def run_plugins(session: nox.Session, *options: str) -> None:
    """Run the tests of every distribution under plugins/, also after one failed."""
    enter(session, "full", *FULL)
    failed = []
    for number, folder in enumerate(PLUGINS):
        words = [*options, *(split(number) if "slow" in options else [])]
        with session.chdir(folder):
            try:
                session.run("python", "-m", "pytest", *words, success_codes=OR_NO_TESTS)
            except nox.command.CommandFailed:
                failed.append(folder)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


@nox.session
def plugins(session: nox.Session) -> None:
    """Run the default tests of every plugin; none may be skipped."""
    os.environ["PYTHONPATH"] = str(ROOT / "tests/quality")
    run_plugins(session, "-p", "no_skips")


@nox.session(name="slow-plugins")
def slow_plugins(session: nox.Session) -> None:
    """Run the slow tests of every plugin."""
    os.environ["PYTHONPATH"] = str(ROOT / "tests/quality")
    run_plugins(session, "-m", "slow", "-p", "in_time", "-n", "2")


@nox.session
def extras(session: nox.Session) -> None:
    """Run, with every extra and plugin, the tests that are skipped without; none may be."""
    enter(session, "full", *FULL)
    os.environ["PYTHONPATH"] = str(ROOT / "tests/quality")
    words = ["grep", "-rlE", r"importorskip|pytest\.skip\(", "tests", "--include=test_*.py"]
    skipping = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    session.run("pytest", "-p", "no_skips", *(name for name in skipping if name not in OF_PLUGINS))
    os.environ["DPFRAME_NO_PLUGINS"] = ""
    session.run("pytest", "-p", "no_skips", *OF_PLUGINS)
    stored = ("-m", "slow", "tests/test_golden.py", "-k", "of_a_plugin", *split())
    session.run("pytest", "-p", "no_skips", *stored, success_codes=OR_NO_TESTS)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and layers."""
    enter(session, "full", *FULL)
    for command in ("ruff check .", "ruff format --check .", "mypy", "lint-imports --no-cache"):
        session.run(*command.split())


@nox.session
def quality(session: nox.Session) -> None:
    """Plant mistakes, and check that the tests find them."""
    enter(session, "main", *MAIN)
    session.run("python", "tests/quality/plant.py", *NUMBER)


@nox.session
def calibration(session: nox.Session) -> None:
    """Check that every estimator that certifies keeps its error rate."""
    enter(session, "main", *MAIN)
    spec = Path("specs/calibration.toml")
    tables = re.split(r"(?m)^(?=\[)", spec.read_text(encoding="utf-8"))
    mechanisms = [table for table in tables if table.startswith("[[mechanism]]")]
    if FIFTH != "all":
        spec = Path(tempfile.mkdtemp()) / spec.name
        kept = [
            table
            for table in tables
            if table not in mechanisms or table in mechanisms[int(FIFTH) :: 5]
        ]
        spec.write_text("".join(kept), encoding="utf-8")
    options = ("--repeats", "1000", "--trials", "200", "--trials", "2000", "--quiet")
    session.run("dpframe", "calibrate", str(spec), *options)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site: no dead link, no public name without a docstring."""
    enter(session, "full", *FULL)
    session.run("sphinx-build", "-W", "-q", "docs", tempfile.mkdtemp())


@nox.session
def wheel(session: nox.Session) -> None:
    """Check that the wheel runs alone: no checkout, no extra."""
    enter(session, "build", "build", "twine")
    folder = Path(tempfile.mkdtemp())
    session.run("pyproject-build", "--outdir", str(folder))  # the wheel from the sdist
    session.run("twine", "check", "--strict", *map(str, folder.iterdir()))
    enter(session, "alone", *map(str, folder.glob("*.whl")))
    shutil.copy("specs/quick.toml", folder)
    with session.chdir(folder):
        session.run(
            "python", "-c", "import dpframe; [getattr(dpframe, n) for n in dpframe.__all__]"
        )
        session.run("dpframe", "run", "quick.toml")
        session.run("dpframe", "show", "runs/quick", stdout=subprocess.DEVNULL)


@nox.session
def lowest(session: nox.Session) -> None:
    """Run a few tests with the lowest versions that pyproject.toml allows."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["test"]
    enter(session, "lowest", *(each.replace(">=", "==") for each in requirements), ".")
    session.run("pytest", *SMOKE)


@nox.session
def newest(session: nox.Session) -> None:
    """Run a few tests with the newest Python at hand."""
    for python in ("python3.14", "python3.13", "python3.12"):
        works = (python, "-c", "import ensurepip, ssl, venv")
        if shutil.which(python) and not subprocess.run(works, check=False).returncode:
            enter(session, "newest", ".[test]", python=python)
            session.run("pytest", *SMOKE)
            return
    session.skip("there is no newer Python here")
