"""Libraries of differential privacy, audited in the versions that the claims are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Mechanism


@hookimpl
def dpframe_mechanisms() -> list[type[Mechanism]]:
    """Return the releases of each library, without importing any library."""
    from dpframe_libraries import base, diffprivlib, opendp, statistics, synthesis, training

    modules = (diffprivlib, opendp, statistics, synthesis, training)
    values = [each for module in modules for each in vars(module).values()]
    classes = [
        each for each in values if isinstance(each, type) and issubclass(each, base.Released)
    ]
    return [each for each in classes if "name" in vars(each)]  # type: ignore[misc]
