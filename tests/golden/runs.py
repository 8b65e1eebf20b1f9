"""Compares what dpframe finds with what it found before: every spec, at few trials.

    python tests/golden/runs.py                     # compare; exit 1 if anything differs
    python tests/golden/runs.py specs/quick.toml    # these specs only
    python tests/golden/runs.py --exact             # floats to the bit too
    python tests/golden/runs.py --update            # store what is found now

tests/golden/stored/NAME.json holds one spec, one cell a line. Beside them lie encodings.json:
values as answers of black boxes, as data, and which of them are the same; addresses.json: keys; and
draws.json: the first draws of each traced mechanism.

Ids, counts, draw groups, verdicts, numbers of draws and texts of events must be equal, but for the
last digit of a score in an event. Floats are stored to the bit, and compared with a relative
tolerance of 1e-9, or 1e-5 for draws, which are float32: the last bit of a logarithm depends on the
processor and on the compiler's version. An output within that bit of a threshold is counted
differently, and attacks that learn by products of matrices add in an order that depends on the
number of cores. So on another machine a few counts may differ by ones; store before a change and
compare after it on one machine.

Not stored: times and memory, sentences, and all but 24 cells of a large spec; of long lists of
whole numbers there is a digest, of floats a few. A spec
whose plugin is not installed is left out, and said so. Those of specs/libraries are left out,
because they need environments.
A search of a black box looks at more answers at a time if the box is fast, so its path may depend
on the machine; none of these specs searches one.

The script sets XLA_FLAGS to those of the default tests: they compile faster, and other flags round
some outputs otherwise, so that learned scores and the counts made of them differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

GOLDEN = Path(__file__).resolve().parent
TESTS, ROOT = GOLDEN.parent, GOLDEN.parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))
if __name__ == "__main__":  # before JAX starts; the flags of tests/conftest.py
    QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    os.environ["XLA_FLAGS"] = QUICK

import jax  # noqa: E402
import numpy as np  # noqa: E402
from golden.values import values  # noqa: E402

import dpframe  # noqa: E402
from dpframe.draw import streams, threefry  # noqa: E402
from dpframe.draw.compile_cache import keep_compiled_programs  # noqa: E402
from dpframe.draw.value_digest import data_digest  # noqa: E402
from dpframe.draw.worker.answers import packed  # noqa: E402
from dpframe.draw.worker.codes import code, code_of_kind  # noqa: E402
from dpframe.draw.worker.encoding import encode  # noqa: E402
from dpframe.draw.worker.exceptions import encode_raised  # noqa: E402
from dpframe.draw.worker.sampler import seeds  # noqa: E402

# All internals that are needed; when they move, only these lines change.
from dpframe.interfaces import registry  # noqa: E402
from dpframe.interfaces.pair import same  # noqa: E402
from dpframe.spec import load_audit  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

RUNS = GOLDEN / "stored"
BUILTIN = sorted(
    spec for spec in (ROOT / "specs").rglob("*.toml") if spec.parent.name != "libraries"
)
TEXTBOOK = sorted((ROOT / "plugins" / "dpframe-textbook" / "specs").glob("*.toml"))
DPSGD = sorted((ROOT / "plugins" / "dpframe-dpsgd" / "specs").glob("*.toml"))
SPECS = [*BUILTIN, *TEXTBOOK, *DPSGD]

PLUGINS = {
    **dict.fromkeys(TEXTBOOK, "dpframe-textbook"),
    **dict.fromkeys(DPSGD, "dpframe-dpsgd"),
}

FEW = ["audit.trials=2000", "run.fit=2000", "run.pilot=2000"]
SEARCH = ["audit.trials=8000"]
SMALL = ["mechanism.width=8", "pair.records=40", "mechanism.steps=3", "mechanism.batch=10"]
TRAINING = ["audit.trials=40", "run.pilot=20", "run.fit=20", *SMALL]
MISTAKES = [*TRAINING, "mechanism.width=4", 'mechanism.mistake=["none", "no-noise"]']
OVERRIDES = {
    "adept-spread": [*FEW, "audit.repeats=10"],
    "dptext-decided": [*FEW, "mechanism.epsilon=[0.1, 2]", "pair.dim=[1, 64]"],  # 24 of 252 cells
    "figure-11-composition": ["audit.trials=1000", *FEW[1:]],
    "noise": ["audit.trials=1000", "run.fit=1000", "run.pilot=1000"],
    **{path.stem: SEARCH for path in TEXTBOOK if path.stem.startswith("search-")},
    "search-bounds": ["audit.trials=2000"],
    **{path.stem: TRAINING for path in DPSGD},
    "mistakes": MISTAKES,
    "mistakes-record": MISTAKES,
    "mistakes-sampling": [*TRAINING, "mechanism.width=4", 'mechanism.mistake="none"'],
    "one-run": ["audit.trials=8", "pair.count=20", *SMALL[1:]],
    "federated": ["audit.trials=8", "mechanism.count=20", "mechanism.dimension=[10, 20]"],
    "dp-fedavg": [
        "pair.clients=20",
        "pair.count=20",
        "mechanism.rounds=3",
        "estimator.guesses=[20]",
    ],
}
"""Trials and sizes of specs for which FEW is too much or too little."""

FLOATS, DRAWS = 1e-9, 1e-5
"""Relative tolerances."""
FITTED = {"federated": 1e-6, "figure-08": 1e-5, "figure-10": 1e-5}
"""Those of specs whose estimates are fitted to scores in float32."""
SCORE, ROUNDED = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?"), 2e-5
"""Scores in texts, and their relative tolerance: one in the last of six digits."""

MOST, CELLS = 8, 24
"""Numbers of a list, and cells of a spec, that are stored; of more, a digest or a sample."""


# Runs.


def missing_plugin(spec: Path) -> str | None:
    """Return the distribution that a spec needs, if it is not installed."""
    needed = PLUGINS.get(spec)
    there = {entry.distribution for entry in registry.load().entries}
    return needed if needed and needed not in there else None


def run(spec: Path) -> dict[str, Any]:
    """Run a spec with few trials and return what is stored of it."""
    overrides = OVERRIDES.get(spec.stem, FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of third parties; the tests have the errors
        record = dpframe.audit(spec, overrides=overrides).model_dump(mode="python")
    summary = record["summary"]
    return {
        "spec": spec.relative_to(ROOT).as_posix(),
        "overrides": overrides,
        "audit": record["audit"],
        "seed": record["seed"],
        "summary": {k: v for k, v in summary.items() if k not in ("seconds", "peak_rss_bytes")},
        "cells": {_name(cell): _cell(cell) for cell in thinned(record["cells"])},
        "skipped": {str(n): skip["reason"] for n, skip in enumerate(thinned(record["skipped"]))},
    }


def thinned(cells: list[Any]) -> list[Any]:
    """Return at most CELLS of them, evenly spread."""
    places = np.linspace(0, len(cells) - 1, min(len(cells), CELLS))
    return [cells[round(place)] for place in places]


def _name(cell: dict[str, Any]) -> str:
    return f"{cell['id']} {cell['repeat']}" if cell["repeat"] else cell["id"]


def _cell(cell: dict[str, Any]) -> dict[str, Any]:
    estimate = cell["estimate"] or {}
    kept = {key: cell[key] for key in ("status", "trials", "draw_group", "verdict")}
    kept |= {key: cell[key] for key in ("p_value", "p_adjusted")}
    kept |= {key: estimate.get(key) for key in ("epsilon", "epsilon_lower", "epsilon_upper")}
    kept["counts"] = shortened(_plain(cell["counts"]))
    kept["wealth"] = shortened(_plain(estimate.get("wealth") or []))
    kept["witness"] = (cell["search"] or {}).get("event")
    kept["reason"] = cell["reason"] if cell["status"] == "failed" else None
    return {key: value for key, value in kept.items() if value is not None and value != []}


def shortened(value: Any) -> Any:
    """Return a value as it is; of a long list a digest, or a few of its entries."""
    numbers = list(_leaves(value)) if isinstance(value, list) else []
    if len(numbers) <= MOST:
        return value
    if not any(isinstance(number, float) for number in numbers):
        return {"of": len(numbers), "digest": _hash(json.dumps(value).encode())}
    places = sorted({round(place) for place in np.linspace(0, len(value) - 1, 6)})
    some = [value[place] for place in places]
    if len(list(_leaves(some))) > 2 * MOST:
        some = [shortened(one) for one in some]
    return {"of": len(value), "some": some}


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _plain(value: Any) -> Any:
    """The value as JSON reads it again."""
    return json.loads(json.dumps(value, default=_of_numpy))


def _of_numpy(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value.model_dump() if hasattr(value, "model_dump") else str(value)


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


# Encodings, addresses, draws.


def encodings() -> dict[str, Any]:
    """Return the codes of many values, as answers and as data, and which are the same."""
    first, again = values(), values()
    named = {}
    for name, value in first.items():
        kept = _plain(_answer(value))
        kept["data"] = _or_error(lambda value=value: data_digest((value, value)))
        kept["same"] = [
            other
            for other in again
            if _or_error(lambda o=other, v=value: same(v, again[o])) is True
        ]
        named[name] = kept
    return {"values": named}


def _answer(value: Any) -> dict[str, Any]:
    read: Any = encode
    if isinstance(value, BaseException):
        read = partial(encode_raised, messages=True)
    try:
        kind, content, numbers = read(value)
    except Exception as error:
        return {"refused": type(error).__name__}
    row = partial(packed, code_of_kind(kind), code(content), numbers, seconds=0.0)
    return {
        "kind": kind if len(kind) <= 200 else f"{kind[:100]}… {_hash(kind.encode())}",
        "value": content.hex() if len(content) <= 24 else _hash(content),
        "numbers": [float(number).hex() for number in numbers[:4]],
        "row": _hash(row(width=8)),
        "all": _hash(row(width=max(1, len(numbers)))),
    }


def _or_error(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return f"refused: {type(error).__name__}"


STREAMS = [
    (0, "0123456789abcdef", 0, "eval"),
    (0, "0123456789abcdef", 0, "fit"),
    (0, "0123456789abcdef", 0, "pilot"),
    (0, "0123456789abcdef", 1, "eval"),
    (1, "0123456789abcdef", 0, "eval"),
    (2**32, "fedcba9876543210", 0, "eval"),
    (2022, "search", 3, "probe"),
]


def addresses() -> dict[str, Any]:
    """Return keys of some addresses."""
    found = {}
    for number, parts in enumerate(STREAMS):
        stream = streams.Stream(*parts)
        keys = {
            f"{prng} {dataset}": streams.chunk_keys(stream, prng, dataset, 0, 4).tolist()
            for prng in streams.GENERATORS
            for dataset in (0, 1)
        }
        base = {
            prng: jax.random.key_data(threefry.base_key(stream, prng)).tolist()
            for prng in streams.GENERATORS
        }
        rng = streams.host_generator(stream, 5, 1)
        found[str(number)] = {
            "stream": list(parts),
            "base": base,
            "chunks": keys,
            "host": rng.integers(2**63, size=4).tolist(),
            "normal": rng.normal(size=2).tolist(),
            "seeds": np.frombuffer(seeds(list(stream), 5, 1), "<u4").tolist(),
            "digest": streams.digest([*parts, 1.5, None], 16),
        }
    return {"streams": found}


def draws() -> dict[str, Any]:
    """Return the first 8 draws of each traced mechanism that dpframe brings, on D and on D′."""
    made = {
        "gaussian": {"sigma": 1.0},
        "subsampled-gaussian": {"sampling_probability": 0.25, "noise_multiplier": 0.5},
        "laplace-numpy": None,
        "program": None,
    }
    names = [
        entry.name
        for entry in registry.load().entries
        if entry.kind == "mechanism" and entry.distribution == "dpframe"
    ]
    found = {}
    for name in sorted(names):
        params = made.get(name, {"epsilon": 1.0})
        if params is None:  # not traced
            continue
        spec = {
            "schema": 1,
            "audit": {"name": "draws", "trials": 100},
            "pair": {"use": "zeros-ones", "params": {"dim": 1 if name in made else 3}},
            "mechanism": [{"use": name, "params": params}],
            "attack": [{"use": "identity"}],
            "estimator": [{"use": "order-statistics"}],
        }
        cell = load_audit(spec, registry=registry.load()).cells[0]
        for dataset, data in enumerate((cell.pair.value.d0, cell.pair.value.d1)):
            stream = streams.Stream(0, name, 0, "eval")
            words = streams.chunk_keys(stream, "threefry2x32-13", dataset, 0, 1)[0]
            key = threefry.key_of(words, "threefry2x32-13")
            outputs = cell.mechanism.value.sample(key, jax.numpy.asarray(data), 8)
            found[f"{name} {dataset}"] = {"dtype": str(outputs.dtype), "draws": outputs.tolist()}
    return {"draws": _plain(found)}


OTHERS: dict[str, tuple[Callable[[], dict[str, Any]], float]] = {
    "encodings": (encodings, 0.0),
    "addresses": (addresses, 0.0),
    "draws": (draws, DRAWS),
}


# Stored and compared.


def file_of(name: str) -> Path:
    """Return the file in which a spec, or one of OTHERS, is stored."""
    return (GOLDEN if name in OTHERS else RUNS) / f"{name}.json"


def written(content: dict[str, Any]) -> str:
    """Return JSON with a line for each cell."""
    parts = []
    for key, value in content.items():
        if key in ("cells", "skipped", "values", "streams", "draws") and value:
            lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f'"{key}": {{\n' + ",\n".join(lines) + "\n}")
        else:
            parts.append(f'"{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def differences(stored: Any, now: Any, tolerance: float, where: tuple[str, ...] = ()) -> list[str]:
    """Return a line for each field that differs."""
    if isinstance(stored, dict) and isinstance(now, dict):
        keys = [*stored, *(key for key in now if key not in stored)]
        found = [
            line
            for key in keys
            for line in differences(
                stored.get(key, "absent"), now.get(key, "absent"), tolerance, (*where, str(key))
            )
        ]
        if not found and list(stored) != list(now):
            found = [f"{' | '.join(where)}: another order"]
        return found
    if isinstance(stored, list) and isinstance(now, list) and len(stored) == len(now):
        pairs = enumerate(zip(stored, now, strict=True))
        return [
            line
            for place, (one, other) in pairs
            for line in differences(one, other, tolerance, (*where, str(place)))
        ]
    if _equal(stored, now, tolerance):
        return []
    return [f"{' | '.join(where)}: stored {_brief(stored)}, now {_brief(now)}"]


def _equal(stored: Any, now: Any, tolerance: float) -> bool:
    if type(stored) is not type(now):
        return False
    if isinstance(stored, float):
        if repr(stored) == repr(now):
            return True
        return bool(tolerance) and math.isclose(stored, now, rel_tol=tolerance, abs_tol=1e-300)
    if isinstance(stored, str) and tolerance:
        if SCORE.split(stored) != SCORE.split(now):
            return False
        one, other = ([float(score) for score in SCORE.findall(text)] for text in (stored, now))
        return bool(np.allclose(one, other, rtol=ROUNDED, atol=0))
    return bool(stored == now)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else text[:300] + "…"


def compare(name: str, content: dict[str, Any], exact: bool = False) -> list[str]:
    """Return a line for each difference between what was stored and what was found."""
    if not file_of(name).exists():
        return [f"{name}: nothing is stored; run with --update"]
    stored = json.loads(file_of(name).read_text(encoding="utf-8"))
    usual = OTHERS[name][1] if name in OTHERS else FITTED.get(name, FLOATS)
    tolerance = 0.0 if exact else usual
    return differences(stored, json.loads(written(content)), tolerance, (name,))


def _handle(name: str, content: dict[str, Any], update: bool, exact: bool) -> list[str]:
    if not update:
        return compare(name, content, exact)
    file_of(name).parent.mkdir(exist_ok=True)
    file_of(name).write_text(written(content), encoding="utf-8")
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or store, as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("specs", nargs="*", type=Path, help="default: all, encodings and draws")
    parser.add_argument("--update", action="store_true", help="store instead of comparing")
    parser.add_argument("--exact", action="store_true", help="floats to the bit")
    asked = parser.parse_args(arguments)
    keep_compiled_programs()
    say = sys.stdout.write
    found: list[str] = []
    if not asked.specs:
        for name, (make, _) in OTHERS.items():
            found += _handle(name, make(), asked.update, asked.exact)
    cells = 0
    specs = [spec.resolve() for spec in asked.specs] or SPECS
    for spec in specs:
        if plugin := missing_plugin(spec):
            say(f"{spec.relative_to(ROOT)}: left out, {plugin} is not installed\n")
            continue
        content = run(spec)
        cells += len(content["cells"])
        mine = _handle(spec.stem, content, asked.update, asked.exact)
        say("".join(f"{line}\n" for line in mine))
        sys.stdout.flush()
        found += mine
    say("".join(f"{line}\n" for line in found if line.split(" |")[0] in OTHERS))
    say(f"{cells} cells of {len(specs)} specs: {len(found)} differences\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
