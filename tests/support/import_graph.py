"""Which file of a package imports which, found in the source; nothing is imported."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Import(NamedTuple):
    """What one statement names."""

    module: str
    name: str | None
    """What is taken from the module; None if it is imported as a whole."""
    typing_only: bool
    """Whether it is for annotations and never run."""


@functools.cache
def imports(path: Path) -> tuple[Import, ...]:
    """Everything that a file imports, inside functions too: late imports can make circles."""
    source = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(_visit(source, _package(path), typing_only=False))


def _package(path: Path) -> str:
    """The package that a file lies in."""
    folder, parts = path.parent, []
    while (folder / "__init__.py").exists():
        parts.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(parts))


def _visit(node: ast.AST, package: str, *, typing_only: bool) -> Iterator[Import]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        typing_only = True
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, None, typing_only) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        assert node.level <= 1, f"import of another package's neighbour in line {node.lineno}"
        module = f"{package}.{node.module}" if node.level else node.module or ""
        yield from (Import(module, a.name, typing_only) for a in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _visit(child, package, typing_only=typing_only)


class Package:
    """The files of a package under the names of their modules.

    Args:
        directory: of the package.
    """

    def __init__(self, directory: Path) -> None:
        self.files = {
            ".".join(path.relative_to(directory.parent).with_suffix("").parts).removesuffix(
                ".__init__"
            ): path
            for path in sorted(directory.rglob("*.py"))
        }

    def target(self, found: Import) -> str:
        """The module that a statement needs.

        A name that a package only passes on is looked for where it is from, so that
        `from dpframe import Claim` counts as an import of the file that defines it.
        """
        whole = f"{found.module}.{found.name}"
        if found.name is None or whole in self.files:
            return found.module if found.name is None else whole
        return self._passed_on(found.module).get(found.name, found.module)

    def _passed_on(self, module: str) -> dict[str, str]:
        path = self.files.get(module)
        if path is None or path.name != "__init__.py":
            return {}
        return {
            name: self.target(found)
            for found in imports(path)
            if (name := found.name) and found.typing_only
        }

    def graph(self, *, typing: bool) -> dict[str, set[str]]:
        """The modules of the package that each of them imports.

        Args:
            typing: also what is imported for annotations only.
        """
        return {
            module: {
                target
                for found in imports(path)
                if (typing or not found.typing_only)
                and (target := self.target(found)) in self.files
                and target != module
                and not self._passed_on(module)
            }
            for module, path in self.files.items()
        }


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Sets of modules each of which needs all others, however many steps away."""
    reached = {module: _reached(graph, module) for module in graph}
    return {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        new = graph[left.pop()] - seen
        seen |= new
        left.extend(new)
    return seen
