"""Trees of arrays, as JAX has them, without JAX.

Nodes are None, tuples, named tuples, lists, dicts and registered classes; if JAX is imported, also
the classes that are registered there. Everything else is a leaf. Leaves have the order of
`jax.tree`, in dicts that of the sorted keys.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ModuleSpec
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpframe.common.arrays import is_jax_array, jax

Tree = Any
_LEAVES = np.ndarray, np.generic, int, float, complex, str, bytes


class Structure(NamedTuple):
    """The shape of a tree: hashable, and equal for trees with equal nodes."""

    kind: Any  # class of the node; None for a leaf
    details: Any = None  # of the node, such as the keys of a dict
    children: tuple[Structure, ...] = ()

    def __str__(self) -> str:
        """Return the text that JAX has for it; digests of datasets contain it."""
        return f"PyTreeDef({_text(self)})"


class _NodeType(NamedTuple):
    """The functions that take nodes of a class apart and rebuild them."""

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Any, list[Any]], Any]


def _sorted_items(tree: dict[Any, Any]) -> tuple[list[Any], Any]:
    keys = tuple(sorted(tree))
    return [tree[key] for key in keys], keys


_NODES: dict[Any, _NodeType] = {
    type(None): _NodeType(lambda tree: ((), None), lambda _, parts: None),
    tuple: _NodeType(lambda tree: (tree, None), lambda _, parts: tuple(parts)),
    list: _NodeType(lambda tree: (tree, None), lambda _, parts: parts),
    dict: _NodeType(_sorted_items, lambda keys, parts: dict(zip(keys, parts, strict=True))),
    OrderedDict: _NodeType(
        lambda tree: (tree.values(), tuple(tree)),
        lambda keys, parts: OrderedDict(zip(keys, parts, strict=True)),
    ),
    defaultdict: _NodeType(
        lambda tree: (_sorted_items(tree)[0], (tree.default_factory, _sorted_items(tree)[1])),
        lambda made, parts: defaultdict(made[0], zip(made[1], parts, strict=True)),
    ),
}


def register(cls: type, flatten: Callable[..., Any], unflatten: Callable[..., Any]) -> None:
    """Make a class a node, here and in JAX.

    Args:
        cls: the class.
        flatten: maps an instance to its children, by field, and its hashable details.
        unflatten: maps details and children to an instance.
    """

    def taken_apart(tree: Any) -> tuple[Iterable[Any], Any]:
        children, details = flatten(tree)
        return children.values(), details

    _NODES[cls] = _NodeType(taken_apart, unflatten)

    def with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, details = flatten(tree)
        key = jax.tree_util.GetAttrKey
        return [(key(name), child) for name, child in children.items()], details

    def tell_jax() -> None:
        jax.tree_util.register_pytree_with_keys(cls, with_keys, unflatten)

    if "jax" in sys.modules:
        tell_jax()
    else:
        _AfterJax.wanted.append(tell_jax)


class _AfterJax:
    """Registers the classes with JAX once it is imported, by whatever module."""

    wanted: ClassVar[list[Callable[[], None]]] = []
    _looking = False

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != "jax" or self._looking:
            return None
        self._looking = True
        spec = importlib.util.find_spec(fullname)
        self._looking = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: types.ModuleType) -> None:
                execute(module)
                while self.wanted:
                    self.wanted.pop()()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


if "jax" not in sys.modules:
    sys.meta_path.insert(0, _AfterJax())


def _taken_apart(tree: Any) -> tuple[Iterable[Any], Any, Any] | None:
    """Return children, kind and details of a node; None for a leaf."""
    kind = type(tree)
    if (node := _NODES.get(kind)) is not None:
        children, details = node.flatten(tree)
        return children, kind, details
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return tree, kind, None
    if isinstance(tree, _LEAVES) or "jax" not in sys.modules or is_jax_array(tree):
        return None
    children, structure = jax.tree.flatten(tree, is_leaf=lambda part: part is not tree)
    return None if jax.tree_util.treedef_is_leaf(structure) else (children, jax, structure)


def _put_together(structure: Structure, children: list[Any]) -> Any:
    if structure.kind is jax:  # a class that is registered with JAX alone
        return structure.details.unflatten(children)
    if (node := _NODES.get(structure.kind)) is not None:
        return node.unflatten(structure.details, children)
    return structure.kind(*children)


_LEAF = Structure(None)


def flatten(
    tree: Tree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], Structure]:
    """Return the leaves and the structure of a tree."""
    node = None if is_leaf is not None and is_leaf(tree) else _taken_apart(tree)
    if node is None:
        return [tree], _LEAF
    children, kind, details = node
    parts = [flatten(child, is_leaf) for child in children]
    below = [leaf for own, _ in parts for leaf in own]
    return below, Structure(kind, details, tuple(structure for _, structure in parts))


def leaves(tree: Tree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a tree."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Tree) -> Structure:
    """Return the structure of a tree."""
    return flatten(tree)[1]


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure with some leaves; raise ValueError if their number differs."""
    remaining = iter(leaves)
    try:
        tree = _filled(structure, remaining)
    except StopIteration:
        raise ValueError(f"too few leaves for {structure}") from None
    if next(remaining, remaining) is not remaining:
        raise ValueError(f"too many leaves for {structure}")
    return tree


def _filled(structure: Structure, leaves: Iterator[Any]) -> Any:
    if structure == _LEAF:
        return next(leaves)
    return _put_together(structure, [_filled(child, leaves) for child in structure.children])


def map(function: Callable[..., Any], tree: Tree, *others: Tree) -> Any:  # noqa: A001  # as in JAX
    """Return a tree of the results for each leaf, with the parts of other trees at its place.

    Raises:
        ValueError: another tree has another structure.
    """
    node = _taken_apart(tree)
    if node is None:
        return function(tree, *others)
    children, kind, details = node
    columns = [list(children)]
    for other in others:
        beside = _taken_apart(other)
        if beside is None or beside[1:] != (kind, details):
            raise ValueError(f"trees differ: {kind.__name__} and {type(other).__name__}")
        columns.append(list(beside[0]))
    parts = [map(function, *each) for each in zip(*columns, strict=True)]
    return _put_together(Structure(kind, details), parts)


def parts_at_leaves(tree: Tree, other: Tree) -> list[Any]:
    """Return the parts of another tree at the leaves of this one; raise ValueError as `map`."""
    parts: list[Any] = []
    map(lambda _, part: parts.append(part), tree, other)
    return parts


def _text(structure: Structure) -> str:
    kind, details, children = structure
    parts = [_text(child) for child in children]
    listed = ", ".join(parts)
    if kind in (None, type(None)):
        return "*" if kind is None else "None"
    if kind is tuple:
        return f"({listed},)" if len(parts) == 1 else f"({listed})"
    if kind is dict:
        items = [f"{key!r}: {part}" for key, part in zip(details, parts, strict=True)]
        return f"{{{', '.join(items)}}}"
    if kind is list:
        return f"[{listed}]"
    name = f"{kind.__name__}[{details}]" if kind in _NODES else f"namedtuple[{kind.__name__}]"
    return f"CustomNode({name}, [{listed}])"
