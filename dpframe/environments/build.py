"""Build and remove environments: with uv if it is installed, else with venv and pip."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dpframe.common.files import write_whole
from dpframe.environments import places
from dpframe.environments.places import Environment, Wanted
from dpframe.errors import DpframeError

_ALONE = "--no-deps "
"""Start of a requirement that is installed without what it needs."""

_SHOWN = 6  # lines of an installer's output that are shown when it fails
_ADDRESS = re.compile(r"\S+://\S+")


def build(
    wanted: Wanted, spec: Path, *, allow_source: bool, tell: Callable[[str], None]
) -> Environment:
    """Build an environment, unless it is there; write its lock beside the spec.

    A lock of the same requirements that lies there already says which versions are installed.

    Args:
        wanted: the environment.
        spec: the file that wants it.
        allow_source: whether packages may be built from source, which runs their code.
        tell: receives lines about the progress.

    Raises:
        DpframeError: it cannot be built; nothing is left of it.
    """
    folder, lock = wanted.folder, places.lock_of(spec, wanted)
    with _alone(folder, tell):
        found = places.read(folder)
        if found.problem:
            shutil.rmtree(folder, ignore_errors=True)
            found = _made(wanted, lock, allow_source, tell)
        else:
            tell(f"{wanted.name}: is there")
        text = places.lock_text(wanted, found.python, found.installed)
        if not places.lock_is_of(lock, wanted) or lock.read_text(encoding="utf-8") != text:
            with _explained(f"{lock}: cannot be written"):
                lock.write_text(text, encoding="utf-8")
    return found


def remove(folder: Path) -> None:
    """Remove an environment; raise DpframeError if that is not possible."""
    with _alone(folder, lambda _: None), _explained(f"{folder}: cannot be removed"):
        shutil.rmtree(folder)
    _lock_file(folder).unlink(missing_ok=True)


def _made(
    wanted: Wanted, lock: Path, allow_source: bool, tell: Callable[[str], None]
) -> Environment:
    uv = shutil.which("uv")
    folder = wanted.folder
    versions = ["-c", str(lock)] if places.lock_is_of(lock, wanted) else []
    listed = ", ".join(wanted.requirements) or "nothing"
    tell(f"{wanted.name}: building with {'uv' if uv else 'venv and pip'}: {listed}")
    started = time.monotonic()
    try:
        folder.mkdir(parents=True)
        python = str(places.interpreter_in(folder))
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
        version, installed = places.ask(python)
        _finish(wanted, version, installed)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError | places.NoAnswerError):
            raise DpframeError(f"environment {wanted.name!r}: {error}") from error
        raise
    took = time.monotonic() - started
    tell(f"{wanted.name}: built in {took:.0f} s, {len(installed)} packages, Python {version}")
    return places.read(folder)


def _finish(wanted: Wanted, version: str, installed: tuple[str, ...]) -> None:
    """Mark an environment as whole."""
    mark = {"name": wanted.name, "requirements": wanted.requirements, "version": version}
    content = json.dumps({**mark, "installed": installed}, indent=1).encode()
    write_whole(wanted.folder / places.MARK, content, 0o644)  # other users may share it


def _python_of(wanted: Wanted) -> str:
    """Return an interpreter of the version that is wanted."""
    own = "{}.{}.{}".format(*sys.version_info)
    if wanted.python is None or f"{own}.".startswith(f"{wanted.python}."):
        return sys.executable
    minor = ".".join(wanted.python.split(".")[:2])
    path = shutil.which(f"python{minor}")
    if path is not None:
        with contextlib.suppress(places.NoAnswerError):
            version, _ = places.ask(path)
            if f"{version}.".startswith(f"{wanted.python}."):
                return path
    raise DpframeError(
        f"environment {wanted.name!r} wants Python {wanted.python}, which is not here: install it, "
        f"or uv, or name an interpreter of your own, --python '{wanted.name}=PATH'"
    )


def _run(command: list[str], wanted: Wanted, python: str | None = None) -> None:
    """Run a command; raise DpframeError with its last lines if it fails.

    Args:
        command: makes an environment, or installs into it.
        wanted: the environment.
        python: the version that it is made with; None if it installs.
    """
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=places.clean(),
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
        hint = "\nonly wheels are taken; --allow-source builds from source too"
    said = "".join(f"\n   {line}" for line in lines[-_SHOWN:])
    raise DpframeError(f"environment {wanted.name!r}: {what} cannot be {failed}{said}{hint}")


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DpframeError(f"{what}: {(error.strerror or str(error)).lower()}") from error


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


@contextlib.contextmanager
def _alone(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Keep other processes from building or removing this environment meanwhile."""
    from filelock import FileLock, Timeout  # takes a while, and only this needs it

    lock = FileLock(_lock_file(folder), mode=0o600)
    with _explained(f"{folder.parent}: cannot be used"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            tell(f"{folder.name}: another process is at it; waiting")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
