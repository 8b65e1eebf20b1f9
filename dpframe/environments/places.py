"""Environments of black boxes: where they are, what they contain, and their lock files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Iterable


# An environment as a spec wants it, and as it was found.


class Wanted(NamedTuple):
    """What a spec says about an environment."""

    name: str
    requirements: tuple[str, ...]
    python: str | None = None
    """A version, such as 3.11; None for that of dpframe."""

    @property
    def digest(self) -> str:
        """Of all that decides what is installed; another list is another environment."""
        content = json.dumps([sorted(self.requirements), self.python])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def slug(self) -> str:
        """Its name as that of a file."""
        return re.sub(r"[^A-Za-z0-9.+-]+", "-", self.name).strip("-.") or "environment"


class Environment(NamedTuple):
    """Where a black box runs, or why it cannot."""

    name: str
    requirements: tuple[str, ...] = ()
    """As the spec lists them; none for an interpreter that the command line names."""
    interpreter: str = ""
    """Path of its Python; "" if there is none. No record names it."""
    python: str = ""
    """Version of that."""
    installed: tuple[str, ...] = ()
    """`name==version`, sorted."""
    problem: str = ""
    """Why it cannot be used; "" if it can."""

    @property
    def digest(self) -> str:
        """Of what is installed: other packages may release something else."""
        content = json.dumps([self.python, self.installed])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


# Where environments lie, what is in them, and whether they can be used.


SWITCH = "DPFRAME_ENVIRONMENTS"
"""Environment variable: the directory of all of them. Default: in the user's cache directory."""

MARK = "dpframe-environment.json"
"""The file that is written last: without it an environment is unfinished."""

LONGEST = 30.0
"""Seconds in which an interpreter has to say what is installed."""

ASK = """
import json, platform
try:
    from importlib import metadata
    found = {(d.metadata["Name"], d.version) for d in metadata.distributions()}
except ImportError:
    found = set()
print(json.dumps([platform.python_version(), sorted(n + "==" + v for n, v in found if n and v)]))
"""


def root() -> Path:
    """The directory of all environments."""
    wanted = os.environ.get(SWITCH)
    return Path(wanted) if wanted else Path(platformdirs.user_cache_dir("dpframe")) / "environments"


def folder_of(wanted: Wanted) -> Path:
    """The directory of one; another list of requirements has another."""
    return root() / f"{wanted.slug}-{wanted.digest}"


def interpreter_in(folder: Path) -> Path:
    """The Python of an environment."""
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


class NoAnswerError(Exception):
    """An interpreter that does not say what is installed."""


def ask(interpreter: str) -> tuple[str, tuple[str, ...]]:
    """The version of an interpreter and what is installed for it; raises NoAnswerError."""
    try:
        done = subprocess.run(
            [interpreter, "-c", ASK],
            capture_output=True,
            check=True,
            timeout=LONGEST,
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
        raise NoAnswerError(f"it does not answer within {LONGEST:g} s") from None
    except (ValueError, IndexError):
        raise NoAnswerError("it is no Python interpreter") from None
    return str(version), tuple(map(str, installed))


def clean() -> dict[str, str]:
    """The variables of this process, but for those that lead back to its own packages."""
    ours = {"VIRTUAL_ENV", "CONDA_PREFIX"}
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") and name not in ours
    }


def named(name: str, interpreter: str) -> Environment:
    """An interpreter that the command line names."""
    try:
        version, installed = ask(interpreter)
    except NoAnswerError as error:
        return Environment(name, problem=f"--python {name}: {error}")
    path = os.path.abspath(interpreter) if os.sep in interpreter else interpreter  # noqa: PTH100
    if tuple(map(int, version.split(".")[:2])) < (3, 8):
        return Environment(name, problem=f"--python {name}: it is Python {version}; 3.8 is needed")
    return Environment(name, (), path, version, installed)


def found(wanted: Wanted, how: str) -> Environment:
    """An environment of a spec, as it was built.

    Args:
        wanted: what the spec says.
        how: the command that builds it.
    """
    folder = folder_of(wanted)
    entry = read(folder)
    if not entry.problem:
        return Environment(
            wanted.name, wanted.requirements, str(entry.interpreter), entry.python, entry.installed
        )
    what = "is not built" if not folder.exists() else f"cannot be used ({entry.problem})"
    problem = f"environment {wanted.name!r} {what}; run: {how}"
    return Environment(wanted.name, wanted.requirements, problem=problem)


class Entry(NamedTuple):
    """What lies in a folder."""

    folder: Path
    name: str
    requirements: tuple[str, ...] = ()
    python: str = ""
    installed: tuple[str, ...] = ()
    problem: str = ""
    """Why it cannot be used; "" if it can."""

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return interpreter_in(self.folder)


def read(folder: Path) -> Entry:
    """One environment."""
    try:
        told: dict[str, Any] = json.loads((folder / MARK).read_text(encoding="utf-8"))
        fields = (str(told["name"]), tuple(told["requirements"]), str(told["version"]))
        installed = tuple(map(str, told["installed"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Entry(folder, folder.name, problem="it is unfinished")
    entry = Entry(folder, *fields, installed)
    if not os.access(entry.interpreter, os.X_OK):
        return entry._replace(problem="its Python is gone")
    return entry


def every() -> list[Entry]:
    """All environments, finished or not, by name."""
    try:
        folders = [one for one in root().iterdir() if one.is_dir()]
    except OSError:
        return []
    return sorted(map(read, folders), key=lambda entry: (entry.name, entry.folder.name))


# What was installed, written beside the spec: names and versions, and no address.


ENDING = ".lock"


def path_of(spec: Path, wanted: Wanted) -> Path:
    """The lock of an environment of a spec."""
    return spec.parent / f"{wanted.slug}{ENDING}"


def text_of(wanted: Wanted, version: str, installed: Iterable[str]) -> str:
    """The content of a lock: pip reads it as a list of constraints."""
    return "\n".join([*_head(wanted), f"# python {version}", *installed, ""])


def usable(path: Path, wanted: Wanted) -> bool:
    """Whether a lock is of the same requirements, so that its versions are wanted again."""
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
