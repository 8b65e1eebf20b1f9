"""Where results come from: versions, devices and the plugins that were used."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any

from dpframe import __version__
from dpframe.estimator import Estimator
from dpframe.record.model import EnvironmentRecord, PluginRecord
from dpframe.record.plain import text

if TYPE_CHECKING:
    from dpframe.plugin import Plugin
    from dpframe.spec.audit import Audit


def environment(prng: str) -> EnvironmentRecord:
    """Versions and devices that a run depends on.

    Args:
        prng: name of the generator.
    """
    import jax

    devices = [device.device_kind for device in jax.devices()]
    return EnvironmentRecord(**versions(), devices=devices, prng=prng)


def versions() -> dict[str, str]:
    """Versions of what computes; starts no device."""
    import jax
    import numpy as np
    import scipy

    return {
        "dpframe": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def peak_rss_bytes() -> int | None:
    """Peak resident memory of this process; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def plugin_records(loaded: Audit) -> list[PluginRecord]:
    """Every plugin that an audit uses, once."""
    from dpframe.engine.planning.fingerprint import program_code

    choices: set[Any] = {
        (c.use, c.distribution, c.version, type(c.value), *program_code(c.value))
        for cell in loaded.cells
        for c in (cell.mechanism, cell.pair, cell.attack, cell.estimator)
    }
    described = [plugin_record(*choice) for choice in choices]
    return sorted(
        described,
        key=lambda plugin: (
            plugin.kind,
            plugin.name,
            plugin.distribution,
            plugin.version,
            plugin.code,
        ),
    )


def plugin_record(
    use: str, distribution: str, version: str, cls: type[Plugin], program: str | None = None
) -> PluginRecord:
    """One plugin as the record names it.

    Args:
        use: its name.
        distribution: where it comes from.
        version: of the distribution.
        cls: its class.
        program: digest of the program that it runs, if it runs one.
    """
    from dpframe.engine.planning.fingerprint import code_digest

    reference = str(cls.reference) if issubclass(cls, Estimator) else ""
    return PluginRecord(
        kind=cls.kind,
        name=use,
        distribution=distribution,
        version=version,
        code=code_digest(cls) if program is None else f"{code_digest(cls)}+{program}",
        reference=text(reference) or None,
    )
