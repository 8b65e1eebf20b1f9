"""What this machine has, so that nothing is begun that it cannot hold."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Of a control group, versions 2 and 1: what its processes may have and do have."""


def free_bytes() -> int | None:
    """Memory that this process may still take without anything being pushed out or killed.

    Returns:
        None where the system does not tell.
    """
    free = [left for left in (_of_system(), *map(_of_group, _groups())) if left is not None]
    return min(free, default=None)


@contextlib.contextmanager
def within(more: int | None) -> Iterator[None]:
    """Lets whoever asks for more memory than this meet a `MemoryError`.

    Without it the system gives what it does not have, and kills the process that uses it.

    Args:
        more: bytes beyond what the process has now; None for no limit. Kept on Linux only.
    """
    used = _status().get("VmData")
    if more is None or used is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = (used << 10) + more
    if before[0] not in (resource.RLIM_INFINITY, -1):
        limit = min(limit, before[0])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _status() -> dict[str, int]:
    return _table(Path("/proc/self/status"))


def _of_system() -> int | None:
    available = _table(Path("/proc/meminfo")).get("MemAvailable")
    if available is not None:
        return available << 10
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _table(file: Path) -> dict[str, int]:
    """The numbers of a file of lines like `MemAvailable:  123 kB`."""
    try:
        lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    words = ((name, value.split()) for name, _, value in pairs)
    return {name: int(word[0]) for name, word in words if word and word[0].isdigit()}


def _groups() -> list[Path]:
    """The control groups of this process, from its own up to that of the whole machine."""
    try:
        lines = _OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers in ("", "memory"):
            own = _CONTROL_GROUPS / controllers / path.lstrip("/")
            found += [own, *own.parents]
    return [group for group in found if group.is_relative_to(_CONTROL_GROUPS)]


def _of_group(group: Path) -> int | None:
    """What a control group has left; None if it sets no limit."""
    for limit, usage in _FILES:
        try:
            most, used = ((group / name).read_text(encoding="ascii") for name in (limit, usage))
            return max(0, int(most) - int(used))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return None
