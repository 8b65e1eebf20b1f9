"""Find, examine, build and remove environments of black boxes."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import platformdirs

from dpframe.common.files import write_whole
from dpframe.common.machine import bound_to_parent
from dpframe.errors import DpframeError

SWITCH = "DPFRAME_ENVIRONMENTS"
"""Environment variable: the directory of all environments; default: in the user's cache."""

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
        """Its directory; the name depends on everything that determines what is installed."""
        content = json.dumps([sorted(self.requirements), self.python])
        return root() / f"{self.slug}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


class Environment(NamedTuple):
    """The state of an environment: an interpreter, or the reason why there is none."""

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
        """Hash of the installed packages, because other packages may release something else."""
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
    """Return the environment in a directory."""
    try:
        mark = json.loads((folder / MARK).read_text(encoding="utf-8"))
        environment = Environment(
            name=str(mark["name"]),
            requirements=tuple(mark["requirements"]),
            interpreter=str(interpreter_in(folder)),
            python=str(mark["version"]),
            installed=tuple(map(str, mark["installed"])),
            folder=folder,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Environment(folder.name, problem="it is unfinished", folder=folder)
    usable = os.access(environment.interpreter, os.X_OK)
    return environment if usable else environment._replace(problem="its Python is gone")


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
        return Environment(name, problem=f"--python {name}: Python {version} is below 3.8")
    return Environment(name, (), path, version, installed)


_SECONDS = 30.0  # in which an interpreter must report its packages
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
    """An interpreter does not report its packages; the message has the reason."""


def ask(interpreter: str) -> tuple[str, tuple[str, ...]]:
    """Return the version of an interpreter and what is installed for it.

    Raises:
        NoAnswerError: it does not report them.
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
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise NoAnswerError(lines[-1] if lines else f"exit code {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise NoAnswerError(f"it did not answer within {_SECONDS:g} s") from None
    except (ValueError, IndexError):
        raise NoAnswerError("it is not a Python interpreter") from None
    return str(version), tuple(map(str, installed))


def clean() -> dict[str, str]:
    """Return this process's environment variables, except those that point to its packages."""
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
    """True if a lock has the same requirements, so that its versions apply."""
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


# Build and remove environments: with uv if it is installed, else with venv and pip.


_ALONE = "--no-deps "
"""Prefix of a requirement that is installed without its dependencies."""

_SHOWN = 6  # lines of an installer's output that are shown when it fails
_ADDRESS = re.compile(r"\S+://\S+")


def build(
    wanted: Wanted, spec: Path, *, allow_source: bool, progress: Callable[[str], None]
) -> Environment:
    """Build an environment, unless it exists; write its lock beside the spec.

    If a lock of the same requirements exists, its versions are installed.

    Args:
        wanted: the environment.
        spec: the file that describes it.
        allow_source: True if packages may be built from source, which runs their code.
        progress: receives lines about the progress.

    Raises:
        DpframeError: it cannot be built; nothing is left of it.
    """
    folder, lock = wanted.folder, lock_of(spec, wanted)
    with _alone(folder, progress):
        environment = read(folder)
        if environment.problem:
            shutil.rmtree(folder, ignore_errors=True)
            environment = _made(wanted, lock, allow_source, progress)
        else:
            progress(f"{wanted.name}: is there")
        text = lock_text(wanted, environment.python, environment.installed)
        if not lock_is_of(lock, wanted) or lock.read_text(encoding="utf-8") != text:
            with _explained(f"{lock}: cannot be written"):
                lock.write_text(text, encoding="utf-8")
    return environment


def remove(folder: Path) -> None:
    """Remove an environment; raise DpframeError if that is not possible."""
    with _alone(folder, lambda _: None), _explained(f"{folder}: cannot be removed"):
        shutil.rmtree(folder)
    _lock_file(folder).unlink(missing_ok=True)


def _made(
    wanted: Wanted, lock: Path, allow_source: bool, progress: Callable[[str], None]
) -> Environment:
    uv = shutil.which("uv")
    folder = wanted.folder
    versions = ["-c", str(lock)] if lock_is_of(lock, wanted) else []
    listed = ", ".join(wanted.requirements) or "nothing"
    progress(f"{wanted.name}: building with {'uv' if uv else 'venv and pip'}: {listed}")
    started = time.monotonic()
    try:
        folder.mkdir(parents=True)
        python = str(interpreter_in(folder))
        if uv:
            version = wanted.python or "{}.{}".format(*sys.version_info)
            _run([uv, "venv", "--quiet", "--python", version, str(folder)], wanted, version)
            install = [uv, "pip", "install", "--python", python]
        else:
            _run([_python_of(wanted), "-m", "venv", str(folder)], wanted, wanted.python or "3")
            install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        wheels = [] if allow_source else ["--only-binary", ":all:"]
        plain = [one for one in wanted.requirements if not one.startswith(_ALONE)]
        alone = [one[len(_ALONE) :] for one in wanted.requirements if one.startswith(_ALONE)]
        if plain:
            _run([*install, *wheels, *versions, *plain], wanted)
        if alone:
            _run([*install, *wheels, *versions, "--no-deps", *alone], wanted)
        version, installed = ask(python)
        _finish(wanted, version, installed)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError | NoAnswerError):
            raise DpframeError(f"environment {wanted.name!r}: {error}") from error
        raise
    took = time.monotonic() - started
    progress(f"{wanted.name}: built in {took:.0f} s, {len(installed)} packages, Python {version}")
    return read(folder)


def _finish(wanted: Wanted, version: str, installed: tuple[str, ...]) -> None:
    """Mark an environment as whole."""
    mark = {"name": wanted.name, "requirements": wanted.requirements, "version": version}
    content = json.dumps({**mark, "installed": installed}, indent=1).encode()
    write_whole(wanted.folder / MARK, content, 0o644)  # other users may share it


def _python_of(wanted: Wanted) -> str:
    """Return an interpreter of the version that is wanted."""
    own = "{}.{}.{}".format(*sys.version_info)
    if wanted.python is None or f"{own}.".startswith(f"{wanted.python}."):
        return sys.executable
    minor = ".".join(wanted.python.split(".")[:2])
    path = shutil.which(f"python{minor}")
    if path is not None:
        with contextlib.suppress(NoAnswerError):
            version, _ = ask(path)
            if f"{version}.".startswith(f"{wanted.python}."):
                return path
    raise DpframeError(
        f"environment {wanted.name!r} needs Python {wanted.python}, which is not installed: "
        f"install it, or uv, or name your own interpreter, --python '{wanted.name}=PATH'"
    )


def _run(command: list[str], wanted: Wanted, python: str | None = None) -> None:
    """Run a command; raise DpframeError with its last lines if it fails.

    With `python`, the command makes an environment with this version; else it installs packages.
    """
    done = subprocess.run(
        bound_to_parent(command),  # an outliving one would write into the next environment
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=clean(),
        check=False,
    )
    if done.returncode == 0:
        return
    lines = [
        _ADDRESS.sub("…", line.rstrip())
        for line in done.stdout.decode(errors="replace").splitlines()
        if line.strip() and not line.startswith(("Looking in", "[notice]", "WARNING: Cache"))
    ]
    names = [one.removeprefix(_ALONE) for one in wanted.requirements]
    guilty = [one for one in names if any(one in line for line in lines[-_SHOWN:])]
    what = ", ".join(guilty or names) if python is None else f"an environment of Python {python}"
    failed = "installed" if python is None else "made"
    hint = ""
    if "--only-binary" in command:
        hint = "\nonly wheels are installed; --allow-source also builds from source"
    excerpt = "".join(f"\n   {line}" for line in lines[-_SHOWN:])
    raise DpframeError(f"environment {wanted.name!r}: {what} cannot be {failed}{excerpt}{hint}")


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DpframeError(f"{what}: {(error.strerror or str(error)).lower()}") from error


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


@contextlib.contextmanager
def _alone(folder: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Keep other processes from building or removing this environment inside the context."""
    from filelock import FileLock, Timeout  # slow to import, and needed only here

    lock = FileLock(_lock_file(folder), mode=0o600)
    with _explained(f"{folder.parent}: cannot be used"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress(f"{folder.name}: waiting for another process that is building it")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
