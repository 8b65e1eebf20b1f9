"""An environment for a package, built by `dpframe environments build`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from dpframe import DpframeError
from dpframe.plugins import bound_to_parent
from dpframe_scan.findings import toml
from dpframe_scan.trials import PackageImportError

DISTRIBUTIONS = {
    **{name: name for name in ("numpy", "scipy", "pandas", "statsmodels", "matplotlib", "torch")},
    **{"sklearn": "scikit-learn", "yaml": "pyyaml", "PIL": "pillow", "dateutil": "python-dateutil"},
}
"""Distributions of modules that packages often import without naming them as a requirement. No
other name is ever guessed, because anyone may have registered it."""

MOST_BUILDS = 5


def built(requirements: Sequence[str]) -> str:
    """Build an environment, unless it exists, and return the path of its interpreter.

    Raises:
        DpframeError: it cannot be built.
    """
    name = f"scan {' '.join(requirements)}"[:80]
    with tempfile.TemporaryDirectory(prefix="dpframe-scan-") as folder:
        spec = Path(folder) / "scan.toml"
        listed = toml(list(requirements))
        spec.write_text(f"schema = 1\n[environments]\n{toml(name)} = {listed}\n", encoding="utf-8")
        _dpframe("environments", "build", str(spec))
        for entry in json.loads(_dpframe("environments", "list", "--json")):
            if entry["name"] == name and entry["requirements"] == list(requirements):
                home = Path(entry["folder"])
                own = (
                    home / "Scripts" / "python.exe" if os.name == "nt" else home / "bin" / "python"
                )
                return str(own)
    raise DpframeError(f"the environment {name!r} is not listed after it was built")


def _dpframe(*words: str) -> str:
    done = subprocess.run(
        bound_to_parent([sys.executable, "-m", "dpframe", *words]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise DpframeError(
            done.stderr.strip() or f"dpframe {words[0]}: exit code {done.returncode}"
        )
    return done.stdout


def with_older(
    requirements: Sequence[str], problem: PackageImportError, installed: Callable[[str], str]
) -> list[str] | None:
    """Return requirements with which the import may work; None if nothing is known.

    A module that is missing is added if its distribution is well known. If a name is missing from
    a well-known library, an older minor version of that library is required.

    Args:
        requirements: of the environment.
        problem: why the package cannot be imported.
        installed: returns the version of an installed distribution, "" if there is none.
    """
    text = str(problem)
    if match := re.search(r"No module named '(\w+)", text):
        found = DISTRIBUTIONS.get(match.group(1))
        if found is None or any(_name(one) == found for one in requirements):
            return None
        return [*requirements, found]
    match = re.search(
        r"cannot import name '\w+' from '(\w+)|module '(\w+)[\w.]*' has no attribute", text
    )
    found = DISTRIBUTIONS.get(match.group(1) or match.group(2)) if match else None
    if found is None or not (version := re.match(r"(\d+)\.(\d+)", installed(found))):
        return None
    major, minor = map(int, version.groups())
    older = f"{found}<{major}.{minor}" if minor else f"{found}<{major}"
    return [*(one for one in requirements if _name(one) != found), older]


def _name(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0].lower()


def version_of(python: str, distribution: str) -> str:
    """Return the version of a distribution for an interpreter; "" if it is not installed."""
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()
