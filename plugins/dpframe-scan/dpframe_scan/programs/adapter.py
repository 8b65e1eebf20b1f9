"""A program that describes a package and makes releases by its callables, where it is installed.

It needs only the standard library and runs on Python 3.8 and later. dpframe's workers load it as a
module, for `prepare`; a scan runs it as a script, which answers requests, one line of JSON each.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import time
import warnings
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

warnings.filterwarnings("ignore")  # would be repeated in every release

LONGEST_DOC = 20000  # characters of a docstring that are read
LONGEST_MESSAGE = 400  # characters of an exception's message that are reported
REPEATS = 8  # calls on the same data, which show if a callable is random
MOST_REPEATS, REPEAT_SECONDS = 400, 1.0
"""If all answers are equal: further calls, and their time. Some keep a value most of the time."""

LEFT_OUT = {
    *("test", "tests", "testing", "conftest", "setup", "examples", "example", "demo"),
    *("scripts", "benchmarks", "docs"),
}
"""Modules whose code is not for users."""

PLAIN = (bool, int, float, str, type(None))


def prepare(params: Dict[str, Any], data: Any) -> Callable[[], Any]:
    """Return a function that makes one release: `release(data)` of the source in `params`.

    Scalars of NumPy become plain, and tuples and iterators lists: which of both a callable returns
    would be lost on the way to anyone else.
    """
    return partial(_released, _compiled(params["source"]), _listed(data))


def _released(release: Callable[[Any], Any], data: Any) -> Any:
    return _plain(release(data))


def _plain(answer: Any) -> Any:
    if type(answer).__module__ == "numpy" and getattr(answer, "shape", None) == ():
        return answer.item()
    if type(answer) in (list, tuple) or (hasattr(answer, "__next__") and iter(answer) is answer):
        return [_plain(one) for one in answer]
    return {key: _plain(one) for key, one in answer.items()} if type(answer) is dict else answer


def _listed(data: Any) -> Any:
    """Return data as lists of plain values, which no release can change in place."""
    return data.tolist() if hasattr(data, "tolist") else data


def _compiled(source: str) -> Callable[[Any], Any]:
    names: Dict[str, Any] = {"__name__": "release"}
    exec(compile(source, "<release>", "exec"), names)  # made by the scan itself
    release: Callable[[Any], Any] = names["release"]
    return release


# A description of a package.


def describe(package: str) -> Iterator[Dict[str, Any]]:
    """Yield a description of each public callable of a package, and of each module that fails."""
    top = importlib.import_module(package)
    paths: Dict[int, List[str]] = {}
    objects: Dict[int, Any] = {}
    for name in _modules(top):
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:
            yield {"failed": name, "why": _told(error)}
            continue
        for attribute, value in sorted(vars(module).items()):
            home = getattr(value, "__module__", None) or ""
            own = home == package or home.startswith(package + ".")
            if attribute.startswith("_") or not own or not callable(value):
                continue
            if inspect.ismodule(value) or not hasattr(value, "__name__"):
                continue
            objects[id(value)] = value
            paths.setdefault(id(value), []).append(name + "." + attribute)
    for at, value in objects.items():
        path = min(paths[at], key=lambda one: (one.count("."), len(one), one))
        try:
            yield _described(path, value)
        except (Exception, SystemExit) as error:
            yield {"failed": path, "why": _told(error)}


def _modules(top: Any) -> Iterator[str]:
    """Yield the names of the public modules of a package, the package first."""
    yield top.__name__
    stack = [(top.__name__, list(getattr(top, "__path__", ())))]
    seen: Set[str] = set()
    while stack:
        above, folders = stack.pop()
        for found in sorted({one.name for one in pkgutil.iter_modules(folders)} | _bare(folders)):
            name = above + "." + found
            for_tests = found.startswith("test_") or found.endswith(("_test", "_tests"))
            hidden = found.startswith("_") or found in LEFT_OUT
            if hidden or for_tests or name in seen:
                continue
            seen.add(name)
            yield name
            if name in sys.modules:
                stack.append((name, list(getattr(sys.modules[name], "__path__", ()))))


def _bare(folders: List[str]) -> Set[str]:
    """Return the names of folders that hold modules, but no `__init__.py`."""
    found = [entry for one in folders if os.path.isdir(one) for entry in os.scandir(one)]
    return {
        entry.name
        for entry in found
        if entry.is_dir()
        and entry.name.isidentifier()
        and any(name.endswith(".py") for _, _, names in os.walk(entry.path) for name in names)
    }


def _described(path: str, value: Any) -> Dict[str, Any]:
    is_class = inspect.isclass(value)
    found: Dict[str, Any] = {
        "name": path,
        "kind": "class" if is_class else "function",
        "doc": (inspect.getdoc(value) or "")[:LONGEST_DOC],
        "parameters": _parameters(value),
    }
    if is_class:
        init = inspect.getdoc(value.__init__) if "__init__" in vars(value) else None
        found["doc"] += "\n\n" + (init or "")[:LONGEST_DOC]
        found["bases"] = [one.__name__ for one in value.__mro__[1:]]
        found["abstract"] = inspect.isabstract(value)
        found["methods"] = [
            {
                "name": name,
                "parameters": _parameters(method)[0 if _is_static(value, name) else 1 :],
                "doc": (inspect.getdoc(method) or "")[:LONGEST_DOC],
            }
            for name, method in inspect.getmembers(value, inspect.isroutine)
            if (not name.startswith("_") or name == "__call__")
            and _has_signature(method)
            and not inspect.ismethod(method)
            and (name != "__call__" or inspect.isfunction(method))
        ]
    return found


def _is_static(owner: Any, name: str) -> bool:
    return isinstance(inspect.getattr_static(owner, name), staticmethod)


def _has_signature(value: Any) -> bool:
    try:
        inspect.signature(value)
    except (TypeError, ValueError):
        return False
    return True


def _parameters(value: Any) -> List[Dict[str, Any]]:
    if not _has_signature(value):
        return []
    found = []
    for one in inspect.signature(value).parameters.values():
        entry: Dict[str, Any] = {"name": one.name, "kind": one.kind.name}
        if one.annotation is not one.empty:
            entry["annotation"] = _annotation(one.annotation)
        if one.default is not one.empty:
            entry["default"] = one.default if type(one.default) in PLAIN else repr(one.default)
        found.append(entry)
    return found


def _annotation(value: Any) -> str:
    return value if isinstance(value, str) else getattr(value, "__qualname__", None) or str(value)


# Trial calls.


def tried(source: str, cases: List[Any]) -> Dict[str, Any]:
    """Call a release some times on each case, and describe what it does.

    Returns a dict with `raised` and `message` if a call raises an exception; else with `kind`, the
    type of an answer, `cost` and `first cost`, processor seconds of a call, `random`, true if
    answers on the same data differ, `varies`, true if answers depend on the data, and `attributes`,
    those of an answer that is a fitted model.
    """
    try:
        release = _compiled(source)
        began = time.process_time()
        release(json.loads(json.dumps(cases[0])))
        first_cost = time.process_time() - began  # some libraries compile in the first call
        answers, costs = [], []
        for case in cases:
            began = time.process_time()
            calls = [release(json.loads(json.dumps(case))) for _ in range(REPEATS)]
            answers.append([_plain(one) for one in calls])
            costs.append((time.process_time() - began) / REPEATS)
    except (Exception, SystemExit) as error:
        return {
            "raised": type(error).__name__,
            "message": " ".join(str(error).split())[:LONGEST_MESSAGE],
            "line": _line_of(error),
        }
    texts = [[_text(one) for one in each] for each in answers]
    first = answers[0][0]
    if all(len(set(each)) == 1 for each in texts):
        texts[0] += _further(release, cases[0], texts[0][0])
    return {
        "kind": type(first).__name__,
        "cost": max(costs),
        "first cost": first_cost,
        "sample": texts[0][0][:LONGEST_MESSAGE],
        "none": all(one is None for each in answers for one in each),
        "random": any(len(set(each)) > 1 for each in texts),
        "varies": len({each[0] for each in texts}) > 1,
        "attributes": _attributes(first),
    }


def _further(release: Callable[[Any], Any], case: Any, text: str) -> List[str]:
    """Call again until an answer differs, and return it; none if all are equal."""
    until = time.monotonic() + REPEAT_SECONDS
    for _ in range(MOST_REPEATS):
        if time.monotonic() > until:
            break
        try:
            other = _text(_plain(release(json.loads(json.dumps(case)))))
        except (Exception, SystemExit) as error:
            other = _told(error)
        if other != text:
            return [other]
    return []


def _attributes(value: Any) -> List[Dict[str, Any]]:
    """Return the fitted attributes of a model: numbers and arrays whose names end in `_`."""
    found = []
    for name in sorted(dir(value)) if hasattr(value, "fit") else ():
        if not name.endswith("_") or name.startswith("_"):
            continue
        try:
            part = getattr(value, name)
        except Exception:
            continue
        shape = getattr(part, "shape", None)
        if isinstance(part, (list, tuple)):
            shape = (len(part),)
        elif isinstance(part, (bool, int, float)):
            shape = ()
        numeric = getattr(getattr(part, "dtype", None), "kind", "f") in "biufUS"
        if shape is not None and numeric and (not isinstance(part, list) or _plain_list(part)):
            found.append({"name": name, "shape": list(shape)})
    return found


def _plain_list(values: Any) -> bool:
    return all(isinstance(one, PLAIN) or hasattr(one, "dtype") for one in values)


def _text(value: Any) -> str:
    """Return a text that differs for different answers."""
    if hasattr(value, "tolist"):
        return repr(value.tolist())
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(_text, value)) + ")"
    if isinstance(value, dict):
        return repr(sorted((str(key), _text(one)) for key, one in value.items()))
    if hasattr(value, "to_csv"):
        return str(value.to_csv())
    inner = getattr(value, "__dict__", None)
    text = repr(value)
    address = r" at 0x[0-9a-fA-F]+"
    if isinstance(inner, dict) and re.search(address, text):
        known = {key: one for key, one in inner.items() if type(one) in PLAIN}
        arrays = {key: one.tolist() for key, one in inner.items() if hasattr(one, "tolist")}
        return type(value).__name__ + repr(sorted({**known, **arrays}.items(), key=str))
    return re.sub(address, "", text)


def _told(error: BaseException) -> str:
    message = " ".join(str(error).split())[:LONGEST_MESSAGE]
    return type(error).__name__ + (": " + message if message else "")


def _line_of(error: BaseException) -> Optional[str]:
    """Return the source line that raised an exception, if it is part of a package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    name = os.path.basename(trace.tb_frame.f_code.co_filename)
    return name + ":" + str(trace.tb_lineno)


def main() -> None:
    """Answer requests from standard input until it ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a package may print
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["do"] == "import":
                importlib.import_module(asked["package"])
                reply: Any = True
            elif asked["do"] == "describe":
                reply = list(describe(asked["package"]))
            else:
                reply = tried(asked["source"], asked["cases"])
        except (Exception, SystemExit) as error:
            reply = {"error": _told(error), "missing": getattr(error, "name", None)}
        out.write(json.dumps(reply, default=repr) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
