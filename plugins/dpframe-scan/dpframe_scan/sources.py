"""The source of releases: the same text is run by a scan and kept as a test."""

from __future__ import annotations

import ast
import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from dpframe import DpframeError
from dpframe_scan.proposals import Proposal

WIDTH = 96  # characters of a line

NAMES = ("data", "x", "row", "dtype", "float", "int", "str", "bool", "list", "tuple", "range")
"""Names that expressions may use, besides np, pd and the package."""

CALLS = {
    *("float", "int", "str", "list", "tuple", "range"),
    *("np.array", "np.zeros", "np.ones", "np.arange", "np.eye", "np.float64", "np.int64"),
    *("np.random.default_rng", "pd.DataFrame", "pd.Series"),
}
"""Functions that expressions may call, besides the package's."""

NODES = (
    *(ast.Expression, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Name, ast.Load),
    *(ast.Attribute, ast.Call, ast.keyword, ast.UnaryOp, ast.USub, ast.BinOp, ast.Mult, ast.Add),
    *(
        ast.Sub,
        ast.Div,
        ast.FloorDiv,
        ast.Mod,
        ast.Subscript,
        ast.Slice,
        ast.ListComp,
        ast.comprehension,
        ast.Store,
    ),
    *(ast.Lambda, ast.arguments, ast.arg),
)
"""Syntax that expressions may use."""


def check_expression(text: str, package: str) -> None:
    """Raise DpframeError if an expression does more than describe a value.

    Files of assumptions may come from elsewhere, so an expression may only use literals, arrays,
    frames, and the package that is scanned anyway.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        raise DpframeError(f"{text!r} is not an expression of Python") from None
    for node in ast.walk(tree):
        problem = None
        if not isinstance(node, NODES):
            problem = type(node).__name__.lower()
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            problem = node.attr
        elif isinstance(node, ast.Name) and node.id not in (*NAMES, "np", "pd", package):
            problem = node.id
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            parts = name.split(".")
            own = parts[0] == package and "(" not in name
            own = own and not sys.stdlib_module_names.intersection(parts[1:])
            if not (own or name in CALLS or name.endswith(").reshape")):
                problem = f"{name}()"
        if problem is not None:
            raise DpframeError(
                f"{text!r}: {problem} may not be used; use literals, arrays of NumPy, frames of "
                f"pandas, or {package}"
            )


def source_of(proposal: Proposal) -> str:
    """Return the source of `release(data)` with its imports."""
    inputs = dict(proposal.data.inputs)
    if not proposal.method:
        body = [f"return {_call(proposal.target, {**proposal.arguments, **inputs})}"]
    else:
        made = {**proposal.arguments, **(inputs if proposal.in_constructor else {})}
        called = {**({} if proposal.in_constructor else inputs), **proposal.of_method}
        one = _call(proposal.target, made)
        method = "" if proposal.method == "__call__" else f".{proposal.method}"
        body = [f"model = {one}"]
        setters: dict[str, dict[str, str]] = {}
        for name, value in proposal.setters.items():
            setter, _, parameter = name.partition(".")
            setters.setdefault(setter, {})[parameter] = value
        body += [_call(f"model.{setter}", given) for setter, given in setters.items()]
        body.append(f"return {_call('model' + method, called)}")
        if proposal.answer:
            parts = [f"model.{name}" for name in proposal.answer]
            body[-1] = body[-1].removeprefix("return ")
            body.append(f"return {', '.join(parts)}")
    text = "\n".join(body)
    imports = [f"import {proposal.target.rpartition('.')[0]}"]
    for short, name in (("np.", "numpy as np"), ("pd.", "pandas as pd")):
        if short in text:
            imports.append(f"import {name}")
    head = "\n".join(sorted(imports))
    return f"{head}\n\n\ndef release(data):\n{textwrap.indent(text, '    ')}\n"


def _call(name: str, arguments: Mapping[str, str]) -> str:
    given = [f"{key}={value}" for key, value in arguments.items()]
    line = f"{name}({', '.join(given)})"
    if len(line) <= WIDTH - 16:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in given) + ")"


def literal(value: Any) -> str:
    """Return a value of data as Python source; NaN and infinities included."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)
