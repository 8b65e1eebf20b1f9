"""A program that runs a user's program in its own environment, and returns named numbers."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from functools import partial
from typing import Any, Callable

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

import queries
import trials
from table_features import Features

_MODULES: dict[str, Any] = {}


def prepare(params: dict[str, Any], data: Any) -> Callable[[], list[float]]:
    """Return a function that makes one synthetic table or answer, and returns its numbers.

    Parameters: `file`, the path of a user's program; `given`, the parameters of its `prepare`; for
    synthetic tables `targets`, for answers `categories` by key column.
    """
    program = _loaded(params["file"])
    if "targets" in params:
        fit = program.prepare(params["given"], data)
        features = Features(params["given"]["columns"], params["targets"])
        return lambda: features.of(fit())
    query = queries.read(data["query"])
    keys = queries.keys_of(query, params["categories"])
    table = queries.table_of(data)
    ask = program.prepare(params["given"], table)
    # The worker looks into a partial: no call may change the table.
    return partial(_numbers, ask, query, keys, table)


def _numbers(ask: Any, query: Any, keys: Any, _table: Any) -> list[float]:
    return queries.numbers(ask(query), query, keys)


def _loaded(path: str) -> Any:
    if path not in _MODULES:
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location("dpframe_pipelines_user", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _MODULES[path] = module
    return _MODULES[path]


def _tried(asked: dict[str, Any]) -> Any:
    """Yield a trial of each case, as `trials.trial` describes it.

    `asked` has the parameters of `prepare`, and the cases: datasets.
    """
    params = asked["params"]
    for data in asked["cases"]:
        query = queries.read(data["query"])
        keys = queries.keys_of(query, params["categories"])

        def call(data: Any = data, query: Any = query) -> Any:
            table = queries.table_of(data)
            return _loaded(params["file"]).prepare(params["given"], table)(query)

        yield trials.trial(call, trials.read_by(query, keys, queries))


def main() -> None:
    """Read cases from standard input, and write a line of JSON for each trial."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the program may print
    for found in _tried(json.load(sys.stdin)):
        out.write(json.dumps(found) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
