"""Limits of the machine end in an exception instead of a killed process."""

from __future__ import annotations

import resource
import sys

import numpy as np
import pytest

from dpframe.common import machine
from dpframe.common.machine import free_bytes, within

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone keeps the limit")


def test_some_memory_is_free():
    free = free_bytes()
    assert free is None or 1 << 20 < free < 1 << 50


@linux_only
def test_beyond_the_limit_is_a_memory_error():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with within(64 << 20):
        assert np.zeros(1 << 20, np.uint8).size
        with pytest.raises(MemoryError):
            np.zeros(1 << 30, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert np.zeros(1 << 30, np.uint8).size


def test_no_limit():
    with within(None):
        assert np.zeros(1 << 20, np.uint8).size


@pytest.mark.parametrize(
    ("cgroup", "files", "left"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "1000", "a/b/memory.current": "300"}, 700),
        ("0::/a/b\n", {"a/memory.max": "1000", "a/memory.current": "300"}, 700),
        ("0::/a\n", {"a/memory.max": "max", "a/memory.current": "300"}, None),
        ("0::/a\n", {"a/memory.max": "100", "a/memory.current": "300"}, 0),
        (
            "4:memory:/a\n0::/\n",
            {"memory/a/memory.limit_in_bytes": "9000", "memory/a/memory.usage_in_bytes": "1"},
            8999,
        ),
        ("4:cpu:/a\n", {}, None),
        ("", {}, None),
    ],
)
def test_the_limit_of_a_container(cgroup, files, left, tmp_path, monkeypatch):
    own = tmp_path / "cgroup"
    own.write_text(cgroup)
    root = tmp_path / "fs"
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    monkeypatch.setattr(machine, "_CONTROL_GROUPS", root)
    monkeypatch.setattr(machine, "_OWN_GROUPS", own)
    monkeypatch.setattr(machine, "_of_system", lambda: None)
    assert free_bytes() == left
