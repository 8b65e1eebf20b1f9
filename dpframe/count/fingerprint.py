"""Digests of everything that determines counts, or a question about them."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpframe import __version__
from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.types import Tree
from dpframe.count.plan import Pass
from dpframe.draw.streams import digest
from dpframe.draw.trace import resolved
from dpframe.draw.value_digest import UNKNOWN_CODE, code_digest
from dpframe.interfaces.mechanism import ForeignMechanism, HostMechanism
from dpframe.results.build import claim_record
from dpframe.spec.audit import Cell, Choice, RunSettings


def entry_keys(
    the_pass: Pass, states: tuple[Tree, ...], layouts: tuple[Tree, ...]
) -> dict[str, str]:
    """Return the key of every cell's counts, by the cell's id.

    The address of the draws is not part of it, because the store keeps a file per address. Leaves
    of states and layouts are [variants, attacks, …].
    """
    program = [__version__, np.__version__]
    if not (the_pass.on_host and all(s.attacks[0].portable for s in the_pass.scorers)):
        program += [jax.__version__, jax.default_backend()]
    keys = {}
    for cell, place in the_pass.cells:
        statistic = the_pass.scorers[place.scorer].statistic
        kind = type(statistic)
        content = {
            "program": program,
            "mechanism": _plugin(cell.mechanism),
            "pair": [*_plugin(cell.pair), the_pass.data],
            "attack": _plugin(cell.attack),
            "statistic": [kind.__module__, repr(statistic), code_digest(kind)],
            "learned": _arrays((place.own(states), place.own(layouts))),
        }
        if (shape := the_pass.shape).asking is not None:
            content["answers"] = [list(shape.asking), shape.dims, shape.native]
        keys[cell.id] = digest(content, 16)
    return keys


def black_box_key(choice: Choice[Any]) -> list[Any]:
    """Return everything besides the address that determines the answers of a black box."""
    return [__version__, _plugin(choice), answer_settings(choice)]


def _plugin(choice: Choice[Any]) -> list[Any]:
    cls: type = type(choice.value)
    params = choice.value.params()
    identity = [choice.distribution, choice.version, choice.use, params, code_digest(cls)]
    environment = [choice.environment] if choice.environment else []
    return [*identity, *environment, *program_code(choice.value)]


def program_code(plugin: Any) -> list[str]:
    """Return the digest of the program that a plugin runs in addition to its own code."""
    if not isinstance(plugin, ForeignMechanism):
        return []
    try:
        return [plugin.code()]
    except (OSError, ValueError):  # it is gone; the run reports it
        return [UNKNOWN_CODE]


def _arrays(tree: Tree) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    for leaf in trees.leaves(tree):
        array = np.ascontiguousarray(leaf)
        hasher.update(f"{array.dtype}{array.shape}".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()


def question(
    cell: Cell, run: RunSettings, error: float, resolution: float, together: Sequence[Any]
) -> str:
    """Return a digest of everything but names that decides the verdict on given counts.

    `error` is the allowed error at a first look; a pilot may choose the test by it. `resolution` is
    the sampler's. `together` has the settings by which the audit judges its cells together.
    """
    mechanism, attack, estimator = cell.mechanism.value, cell.attack.value, cell.estimator.value
    run = resolved(run, mechanism, cell.trials)
    pilots = estimator.statistic().needs_pilot() and not type(estimator).anytime
    return digest(
        {
            "mechanism": [cell.mechanism.use, mechanism.params()],
            "chosen": [_chosen(choice) for choice in (cell.attack, cell.estimator)],
            **_in_common(cell, error, resolution, together),
            "fit": run.fit if attack.learns() else 0,
            "pilot": run.pilot if pilots else 0,
            **answer_settings(cell.mechanism),
        }
    )


def question_of_search(
    cell: Cell, run: RunSettings, error: float, resolution: float, together: Sequence[Any]
) -> str:
    """Return a `question` about a search, which also covers everything that decides its draws."""
    assert cell.search is not None
    search = cell.search
    mechanism: Any = search.mechanism.value
    on_host = isinstance(mechanism, HostMechanism)
    seconds = run.seconds if on_host else 0
    versions: Any = {}
    chosen: list[Any] = [search.neighbourhood, *search.attacks]
    if on_host:
        from dpframe.draw.requirements import libraries

        versions = libraries(mechanism)
    return digest(
        {
            "mechanism": [_chosen(search.mechanism), *program_code(mechanism), versions],
            "chosen": list(map(_chosen, chosen)),
            "leaks": [search.ignore, search.findings, search.parameters],
            **_in_common(cell, error, resolution, together),
            "trials": cell.trials,
            "drawn": [run.stop, run.precision, run.prng, run.chunk, seconds],
            **answer_settings(search.mechanism),
        }
    )


def _chosen(choice: Choice[Any]) -> list[Any]:
    kind: Any = type(choice.value)
    own = kind.__module__.partition(".")[0] != "dpframe"
    code = code_digest(kind) if own else ""
    return [choice.distribution, choice.use, choice.value.params(), code]


def _in_common(
    cell: Cell, error: float, resolution: float, together: Sequence[Any]
) -> dict[str, Any]:
    claim = claim_record(cell.claim, cell.delta)
    return {
        "claim": claim and claim.model_dump(mode="json"),  # the curve, which its code may change
        "delta": cell.delta,
        "error": f"{error:.12g}",
        "resolution": resolution,
        "together": together,
    }


def answer_settings(choice: Choice[Any]) -> dict[str, Any]:
    """Return the settings of a black box that turn the same draws into other answers."""
    names = "raises", "time", "limit", "messages", "only"
    settings = {name: getattr(choice, name) for name in names}
    return {name: value for name, value in settings.items() if value not in (None, False, ())}
