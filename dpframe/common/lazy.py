"""Modules that import what they export when it is first used."""

import ast
import importlib
import inspect
import sys


def exports(module: str) -> dict[str, str]:
    """Return the names that a module imports for type checkers, each with the module it is from.

    These are the imports below `if TYPE_CHECKING`, so that names are listed once.
    """
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    block = next(node for node in body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def load(module: str, homes: dict[str, str], name: str) -> object:
    """Import one of these names for a module, which keeps it."""
    if name not in homes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home = importlib.import_module(homes[name])
    if not hasattr(home, name):  # a module of a package
        importlib.import_module(f"{homes[name]}.{name}")
    value: object = getattr(home, name)
    setattr(sys.modules[module], name, value)  # the next access does not come through here
    return value
