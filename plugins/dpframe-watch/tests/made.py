"""A tiny library in two versions, as wheels, and a registry that lists it."""

from __future__ import annotations

import zipfile
from pathlib import Path

ADAPTER = """\
import tinylib


def prepare(params, data):
    return lambda: tinylib.noisy_sum(data, params["epsilon"])
"""
LIBRARY = '''\
import random


def noisy_sum(values, epsilon):
    """Return the sum of values in [0, 1], with Laplace noise."""
    scale = {scale} / epsilon
    return float(sum(values)) + random.expovariate(1 / scale) - random.expovariate(1 / scale)
'''
SCALES = {"1.0": 0.4, "2.0": 1.0}
"""Noise by version: that of 1.0 is too small."""

REGISTRY = """\
schema = 1
title = "Tiny <libraries> & more"

[libraries.dpframe-tinylib]
versions = {versions}

[libraries.dpframe-tinylib.adapters.noisy-sum]
module = "noisy_sum.py"
epsilon = 1.0
params = {{ epsilon = 1.0 }}
pair = {{ use = "zeros-ones" }}
trials = 4000
{more}
"""


def write_wheel(folder: Path, version: str, scale: float) -> None:
    """Write a wheel of the library."""
    about = f"dpframe_tinylib-{version}.dist-info"
    with zipfile.ZipFile(folder / f"dpframe_tinylib-{version}-py3-none-any.whl", "w") as file:
        file.writestr("tinylib.py", LIBRARY.format(scale=scale))
        head = f"Metadata-Version: 2.1\nName: dpframe-tinylib\nVersion: {version}\n"
        file.writestr(f"{about}/METADATA", head)
        tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        file.writestr(f"{about}/WHEEL", tag)
        file.writestr(f"{about}/RECORD", "")


def write_registry(folder: Path, versions: str = '["1.0", "2.0"]', more: str = "") -> Path:
    """Write a registry and its adapter; return its path."""
    (folder / "noisy_sum.py").write_text(ADAPTER, encoding="utf-8")
    path = folder / "registry.toml"
    path.write_text(REGISTRY.format(versions=versions, more=more), encoding="utf-8")
    return path
