"""How a worker of another interpreter is started, and what it is told of a load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe.engine.boxes.worker.plain_data import UnfitError, pack
from dpframe.environments.place import clean
from dpframe.errors import SampleError
from dpframe.foreign import ForeignMechanism
from dpframe.machine import free_bytes

if TYPE_CHECKING:
    from dpframe.mechanism import HostMechanism

FILES = (
    *("answer_encoding", "foreign_rows", "foreign_system", "limit", "plain_data"),
    *("query_numbers", "timing", "foreign"),
)
"""All that the worker consists of; the last one starts it with the others.

A package gets a name of its own there, by which its files find each other: a `dpframe` that a box
may have beside it is left alone.
"""

START = """
import sys, types
parts = types.SimpleNamespace()
bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
for path in sys.argv[1:]:
    name = path.replace("\\\\", "/").rpartition("/")[2].partition(".")[0]
    made = types.ModuleType(name)
    if not path.endswith(".py"):
        made.__name__ = made.__package__ = "dpframe_worker_" + name
        made.__path__ = [path]
        sys.modules[made.__name__] = made
        path += "/__init__.py"
    with open(path, "rb") as file:
        exec(compile(file.read(), path, "exec"), made.__dict__)
    setattr(parts, name, made)
del sys.argv[1:]
sys.dont_write_bytecode = bytecode
sys.path[:] = [place for place in sys.path if place]
parts.foreign.start(parts)
"""

ONE_THREAD = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS"),
    *("POLARS_MAX_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"),
)
"""Libraries that would take all cores, where several workers share them."""


def command(interpreter: str) -> list[str]:
    """What starts a worker."""
    return [interpreter, "-c", START, *map(str, map(_place, FILES))]


def _place(name: str) -> Path:
    package = Path(__file__).parent / "worker" / name
    return package if package.is_dir() else package.with_suffix(".py")


def surroundings() -> dict[str, str]:
    """Its environment variables: nothing in them leads back to this interpreter."""
    return {**clean(), **dict.fromkeys(ONE_THREAD, "1"), "JAX_PLATFORMS": "cpu"}


def is_foreign(mechanisms: tuple[HostMechanism, ...]) -> bool:
    """Whether the boxes of a load are modules for any interpreter."""
    return isinstance(mechanisms[0], ForeignMechanism)


def task(mechanisms: tuple[Any, ...], data: tuple[Any, ...]) -> tuple[dict[str, Any], bytes]:
    """What a worker is told: where the program is, its parameters, and the data.

    Args:
        mechanisms: one per lane.
        data: the two datasets.

    Raises:
        SampleError: the program is not there, or the data cannot be handed over.
    """
    first = mechanisms[0]
    try:
        program = first.program()
        told = {
            "do": "load",
            "program": str(program.path.resolve()),
            "digest": program.digest,
            "params": [mechanism.arguments() for mechanism in mechanisms],
            "attributes": list(first.attributes),
            "memory": free_bytes(),
        }
        return told, pack([pack(one) for one in data])
    except UnfitError as error:
        raise SampleError(f"D or D′: {error}") from None
    except (OSError, ValueError) as error:
        raise SampleError(f"the program cannot be read: {error}") from None
