"""A program that runs a user's program in its own environment, and describes its answers."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, Callable

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

import answer_features

_MODULES: dict[str, Any] = {}


def prepare(params: dict[str, Any], data: Any) -> Callable[[], list[float]]:
    """Return a function that rewrites the text once, and returns the features of the answer.

    Parameters: `file`, the path of a user's program; `given`, the parameters of its `prepare`.
    """
    rewrite = _loaded(params["file"]).prepare(params["given"], data)
    return lambda: answer_features.features(rewrite())


def _loaded(path: str) -> Any:
    if path not in _MODULES:
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location("dpframe_text_user", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _MODULES[path] = module
    return _MODULES[path]
