"""Environments of black boxes: where they are, what they contain, and their lock files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import platformdirs

SWITCH = "DPFRAME_ENVIRONMENTS"
"""Environment variable: the directory of all of them. Default: in the user's cache directory."""

MARK = "dpframe-environment.json"
"""The file that is written last: without it an environment is unfinished."""


class Wanted(NamedTuple):
    """An environment as a spec describes it."""

    name: str
    requirements: tuple[str, ...]
    python: str | None = None  # a version, such as 3.11; None for that of dpframe

    @property
    def slug(self) -> str:
        """Its name as that of a file."""
        return re.sub(r"[^A-Za-z0-9.+-]+", "-", self.name).strip("-.") or "environment"

    @property
    def folder(self) -> Path:
        """Its directory; all that decides what is installed decides the name."""
        content = json.dumps([sorted(self.requirements), self.python])
        return root() / f"{self.slug}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


class Environment(NamedTuple):
    """An environment as it was found: an interpreter, or the reason why there is none."""

    name: str
    requirements: tuple[str, ...] = ()
    """As the spec lists them; none for an interpreter that the command line names."""
    interpreter: str = ""  # path of its Python; "" if there is none; no record names it
    python: str = ""  # version of that
    installed: tuple[str, ...] = ()  # `name==version`, sorted
    problem: str = ""  # why it cannot be used; "" if it can
    folder: Path = Path()  # its directory, if it was built here

    @property
    def digest(self) -> str:
        """Hash of what is installed: other packages may release something else."""
        content = json.dumps([self.python, self.installed])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def root() -> Path:
    """Return the directory of all environments."""
    wanted = os.environ.get(SWITCH)
    return Path(wanted) if wanted else Path(platformdirs.user_cache_dir("dpframe")) / "environments"


def interpreter_in(folder: Path) -> Path:
    """Return the path of an environment's Python."""
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def read(folder: Path) -> Environment:
    """Read what lies in a directory."""
    try:
        mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
        found = Environment(
            name=str(mark["name"]),
            requirements=tuple(mark["requirements"]),
            interpreter=str(interpreter_in(folder)),
            python=str(mark["version"]),
            installed=tuple(map(str, mark["installed"])),
            folder=folder,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Environment(folder.name, problem="it is unfinished", folder=folder)
    usable = os.access(found.interpreter, os.X_OK)
    return found if usable else found._replace(problem="its Python is gone")


def every() -> list[Environment]:
    """Return all environments that were built, finished or not, by name."""
    try:
        folders = [one for one in root().iterdir() if one.is_dir()]
    except OSError:
        return []
    return sorted(map(read, folders), key=lambda one: (one.name, one.folder.name))


def found(wanted: Wanted, how: str) -> Environment:
    """Find an environment of a spec; `how` is the command that builds it."""
    there = read(wanted.folder)
    if not there.problem:
        return there._replace(name=wanted.name, requirements=wanted.requirements, folder=Path())
    built = wanted.folder.exists()
    what = f"cannot be used ({there.problem})" if built else "is not built"
    problem = f"environment {wanted.name!r} {what}; run: {how}"
    return Environment(wanted.name, wanted.requirements, problem=problem)


def named(name: str, interpreter: str) -> Environment:
    """Examine an interpreter that the command line names."""
    try:
        version, installed = ask(interpreter)
    except NoAnswerError as error:
        return Environment(name, problem=f"--python {name}: {error}")
    path = os.path.abspath(interpreter) if os.sep in interpreter else interpreter  # noqa: PTH100
    if tuple(map(int, version.split(".")[:2])) < (3, 8):
        return Environment(name, problem=f"--python {name}: it is Python {version}; 3.8 is needed")
    return Environment(name, (), path, version, installed)


_SECONDS = 30.0  # in which an interpreter has to say what is installed
_ASK = """
import json, platform
try:
    from importlib import metadata
    found = {(d.metadata["Name"], d.version) for d in metadata.distributions()}
except ImportError:
    found = set()
print(json.dumps([platform.python_version(), sorted(n + "==" + v for n, v in found if n and v)]))
"""


class NoAnswerError(Exception):
    """An interpreter that does not say what is installed."""


def ask(interpreter: str) -> tuple[str, tuple[str, ...]]:
    """Return the version of an interpreter and what is installed for it.

    Raises:
        NoAnswerError: it does not say; the message has the reason.
    """
    try:
        done = subprocess.run(
            [interpreter, "-c", _ASK],
            capture_output=True,
            check=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env=clean(),
        )
        version, installed = json.loads(done.stdout.decode().strip().splitlines()[-1])
    except OSError as error:
        raise NoAnswerError((error.strerror or str(error)).lower()) from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise NoAnswerError(said[-1] if said else f"exit code {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"it does not answer within {_SECONDS:g} s") from None
    except (ValueError, IndexError):
        raise NoAnswerError("it is no Python interpreter") from None
    return str(version), tuple(map(str, installed))


def clean() -> dict[str, str]:
    """Return the variables of this process, but for those that lead back to its own packages."""
    ours = {"VIRTUAL_ENV", "CONDA_PREFIX"}
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") and name not in ours
    }


def lock_of(spec: Path, wanted: Wanted) -> Path:
    """Return the path of the lock beside a spec, which lists what was installed."""
    return spec.parent / f"{wanted.slug}.lock"


def lock_text(wanted: Wanted, version: str, installed: Iterable[str]) -> str:
    """Return the content of a lock: names and versions, which pip reads as constraints."""
    return "\n".join([*_head(wanted), f"# python {version}", *installed, ""])


def lock_is_of(path: Path, wanted: Wanted) -> bool:
    """True if a lock is of the same requirements, so that its versions are wanted again."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    head = _head(wanted)
    return lines[: len(head)] == head


def _head(wanted: Wanted) -> list[str]:
    requirements = ", ".join(sorted(wanted.requirements))
    python = f" on Python {wanted.python}" if wanted.python else ""
    return [f"# environment: {wanted.name}", f"# requirements: {requirements}{python}"]
