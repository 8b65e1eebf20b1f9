"""Builds environments: with uv where it is at hand, else with venv and pip."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dpframe.environments import places as lock
from dpframe.environments import places as place
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dpframe.environments.places import Wanted


ALONE = "--no-deps "
"""What a requirement begins with that is installed without what it needs."""

LAST = 6
"""Lines of an installer's output that are shown when it fails."""

_ADDRESS = re.compile(r"\S+://\S+")


def build(
    wanted: Wanted, spec: Path, *, allow_source: bool, tell: Callable[[str], None]
) -> place.Entry:
    """Builds an environment, unless it is there; writes its lock beside the spec.

    A lock of the same requirements that lies there already says which versions are installed.

    Args:
        wanted: which.
        spec: the file that wants it.
        allow_source: whether packages may be built from source, which runs their code.
        tell: told what goes on.

    Raises:
        DpframeError: it cannot be built; nothing is left of it.
    """
    folder = place.folder_of(wanted)
    written = lock.path_of(spec, wanted)
    with _alone(folder, tell):
        entry = place.read(folder)
        if entry.problem:
            shutil.rmtree(folder, ignore_errors=True)
            entry = _made(wanted, folder, written, allow_source, tell)
        else:
            tell(f"{wanted.name}: is there")
        text = lock.text_of(wanted, entry.python, entry.installed)
        if not lock.usable(written, wanted) or written.read_text(encoding="utf-8") != text:
            with _said(f"{written}: cannot be written"):
                written.write_text(text, encoding="utf-8")
    return entry


def remove(folder: Path) -> None:
    """Removes an environment; raises DpframeError where that is not possible."""
    with _alone(folder, lambda _: None), _said(f"{folder}: cannot be removed"):
        shutil.rmtree(folder)
    _lock_file(folder).unlink(missing_ok=True)


def _made(
    wanted: Wanted, folder: Path, written: Path, allow_source: bool, tell: Callable[[str], None]
) -> place.Entry:
    uv = shutil.which("uv")
    versions = ["-c", str(written)] if lock.usable(written, wanted) else []
    listed = ", ".join(wanted.requirements) or "nothing"
    tell(f"{wanted.name}: building with {'uv' if uv else 'venv and pip'}: {listed}")
    started = time.monotonic()
    try:
        folder.mkdir(parents=True)
        python = str(place.interpreter_in(folder))
        if uv:
            version = wanted.python or "{}.{}".format(*sys.version_info)
            _run([uv, "venv", "--quiet", "--python", version, str(folder)], wanted, version)
            install = [uv, "pip", "install", "--python", python]
        else:
            _run([_python_of(wanted), "-m", "venv", str(folder)], wanted, wanted.python or "3")
            install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        wheels = [] if allow_source else ["--only-binary", ":all:"]
        plain = [one for one in wanted.requirements if not one.startswith(ALONE)]
        alone = [one[len(ALONE) :] for one in wanted.requirements if one.startswith(ALONE)]
        if plain:
            _run([*install, *wheels, *versions, *plain], wanted)
        if alone:
            _run([*install, *wheels, *versions, "--no-deps", *alone], wanted)
        version, installed = place.ask(python)
        _finish(wanted, folder, version, installed)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError | place.NoAnswerError):
            raise DpframeError(f"environment {wanted.name!r}: {error}") from error
        raise
    took = time.monotonic() - started
    tell(f"{wanted.name}: built in {took:.0f} s, {len(installed)} packages, Python {version}")
    return place.read(folder)


def _finish(wanted: Wanted, folder: Path, version: str, installed: Sequence[str]) -> None:
    """Marks an environment as whole."""
    told = {"name": wanted.name, "requirements": wanted.requirements, "version": version}
    temporary = folder / f"{place.MARK}.part"
    temporary.write_text(json.dumps({**told, "installed": installed}, indent=1), encoding="utf-8")
    temporary.replace(folder / place.MARK)


def _python_of(wanted: Wanted) -> str:
    """An interpreter of the version that is wanted."""
    own = "{}.{}.{}".format(*sys.version_info)
    if wanted.python is None or f"{own}.".startswith(f"{wanted.python}."):
        return sys.executable
    minor = ".".join(wanted.python.split(".")[:2])
    path = shutil.which(f"python{minor}")
    if path is not None:
        with contextlib.suppress(place.NoAnswerError):
            version, _ = place.ask(path)
            if f"{version}.".startswith(f"{wanted.python}."):
                return path
    raise DpframeError(
        f"environment {wanted.name!r} wants Python {wanted.python}, which is not here: install it, "
        f"or uv, or name an interpreter of your own, --python '{wanted.name}=PATH'"
    )


def _run(command: list[str], wanted: Wanted, python: str | None = None) -> None:
    """Raises DpframeError with the last lines of a command that fails.

    Args:
        command: makes an environment, or installs into it.
        wanted: the environment.
        python: the version that it is made with; None where something is installed.
    """
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=place.clean(),
        check=False,
    )
    if done.returncode == 0:
        return
    lines = [
        _ADDRESS.sub("…", line.rstrip())
        for line in done.stdout.decode(errors="replace").splitlines()
        if line.strip() and not line.startswith(("Looking in", "[notice]", "WARNING: Cache"))
    ]
    names = [one.removeprefix(ALONE) for one in wanted.requirements]
    guilty = [one for one in names if any(one in line for line in lines[-LAST:])]
    what = ", ".join(guilty or names) if python is None else f"an environment of Python {python}"
    failed = "installed" if python is None else "made"
    hint = ""
    if "--only-binary" in command:
        hint = "\nonly wheels are taken; --allow-source builds from source too"
    said = "".join(f"\n   {line}" for line in lines[-LAST:])
    raise DpframeError(f"environment {wanted.name!r}: {what} cannot be {failed}{said}{hint}")


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DpframeError(f"{what}: {(error.strerror or str(error)).lower()}") from error


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


@contextlib.contextmanager
def _alone(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """While it lasts, no other process builds or removes this environment."""
    with _said(f"{folder.parent}: cannot be used"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(_lock_file(folder), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            tell(f"{folder.name}: another process is at it; waiting")
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)
