"""Imports go downwards only, between rooms and between files: nothing needs what needs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ROOT, processes
from support.import_graph import Package, circles, imports

PACKAGE = Package(ROOT / "dpframe")

GROUND = {
    *(
        "errors",
        "types",
        "files",
        "machine",
        "descendants",
        "patience",
        "printable",
        "suggest",
        "blame",
        "plugin_files",
        "program_files",
    ),
    *("claims", "stats"),
}
BOUNDARY = {
    "plugin",
    "parameters",
    "answers",
    "mechanism",
    "foreign",
    "attack",
    "statistic",
    "estimator",
    "alike",
    "pair",
    "spec_file",
    "neighbourhood",
    "boxes",
    "exchange",
    "scores",
    "hookspecs",
}
PUBLIC = GROUND | BOUNDARY | {"dpframe", "environments"}
ALLOWED = {
    "errors": set(),
    "types": set(),
    "files": set(),
    "machine": set(),
    "descendants": set(),
    "patience": set(),
    "printable": set(),
    "suggest": set(),
    "blame": {"printable"},
    "plugin_files": {"blame", "errors", "printable"},
    "program_files": set(),
    "environments": {"errors"},
    "stats": set(),
    "claims": {"errors", "types", "stats"},
    **dict.fromkeys(BOUNDARY, GROUND | BOUNDARY),
    "builtin": {"dpframe", "stats"},  # what a third party may import, and nothing else
    "loader": PUBLIC,
    "registry": PUBLIC | {"builtin", "loader"},
    "spec": PUBLIC | {"registry"},
    "record": PUBLIC | {"registry", "spec"},
    "engine": PUBLIC | {"registry", "spec", "record"},
    "calibration": PUBLIC | {"registry", "spec", "record", "engine"},
    "testing": PUBLIC | {"builtin", "registry", "record", "engine"},
    "report": {"errors", "printable", "suggest", "stats", "record"},
}
TOP = {
    *("__main__", "cli", "commands", "dpframe", "pytest"),
}
"""The floor above everything: it may import whatever it likes."""

LIBRARIES_BANNED = {
    "report": {"jax", "pluggy", "pydantic"},
    "engine": {"typer", "rich", "click"},
    "stats": {"jax", "rich", "typer"},
    "spec": {"jax", "rich", "typer"},
    "cli": {"jax", "numpy", "scipy", "click"},
}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "dpframe"


@pytest.mark.parametrize("module", PACKAGE.files)
def test_imports_go_downwards(module: str) -> None:
    own = room(module)
    for found in imports(PACKAGE.files[module]):
        library = found.module.split(".")[0]
        needed = f"{found.module}.{found.name}"
        needed = needed if needed in PACKAGE.files else found.module
        banned = library in LIBRARIES_BANNED.get(own, set())
        assert found.typing_only or not banned, f"{own} → {library}"
        if library == "dpframe" and own not in TOP and room(needed) != own:
            assert room(needed) in ALLOWED[own], f"{own} must not import {needed}"


def test_every_room_has_a_rule() -> None:
    assert {room(module) for module in PACKAGE.files} == set(ALLOWED) | TOP


RUN_CIRCLES = {
    frozenset({"dpframe.results.store", "dpframe.results.verdict"}),
}
TYPED_CIRCLES = {
    *RUN_CIRCLES,
    frozenset({"dpframe.spec.tables", "dpframe.spec.uses"}),
}
"""Those that are left; the lists may only become shorter."""


def test_no_file_needs_one_that_needs_it() -> None:
    assert circles(PACKAGE.graph(typing=False)) == RUN_CIRCLES


def test_no_file_knows_the_types_of_one_that_needs_it() -> None:
    assert circles(PACKAGE.graph(typing=True)) == TYPED_CIRCLES


ROOMS_OF_ENGINE = (
    *("addresses", "checks", "compiling", "boxes", "planning", "counts", "programs", "passes"),
    *("cluster", "search", "run", "count"),
)
"""Each may need those before it."""


def test_rooms_of_the_engine_need_those_above_them_only() -> None:
    floors = {f"dpframe.engine.{room}": floor for floor, room in enumerate(ROOMS_OF_ENGINE)}
    inside = {
        module: floors[".".join(module.split(".")[:3])]
        for module in PACKAGE.files
        if module.startswith("dpframe.engine.")
    }
    graph = PACKAGE.graph(typing=True)
    upwards = {(m, n) for m in inside for n in graph[m] & inside.keys() if inside[n] > inside[m]}
    assert upwards == set()


def test_circles_are_found(tmp_path: Path) -> None:
    """Through late imports, through names that the package passes on, and for annotations."""
    for name, text in {
        "__init__": "if TYPE_CHECKING:\n    from house.a import A as A",
        "a": "def late():\n    from house import b",
        "b": "from house import A",
        "c": "from house import a\nif TYPE_CHECKING:\n    import house.d",
        "d": "from house.c import C",
    }.items():
        (tmp_path / "house").mkdir(exist_ok=True)
        (tmp_path / "house" / f"{name}.py").write_text(text)
    house = Package(tmp_path / "house")
    assert circles(house.graph(typing=False)) == {frozenset({"house.a", "house.b"})}
    both = {frozenset({"house.a", "house.b"}), frozenset({"house.c", "house.d"})}
    assert circles(house.graph(typing=True)) == both


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import dpframe", ["jax", "numpy", "scipy", "typer", "pydantic", "pluggy"]),
        ("import dpframe.cli", ["jax", "numpy", "scipy", "pluggy"]),
        # Loaded into every run of pytest; pluggy is pytest's own.
        ("import dpframe.pytest", ["jax", "numpy", "scipy", "typer", "pydantic", "rich"]),
    ],
)
def test_nothing_heavy_is_imported_early(statement: str, banned: list[str]) -> None:
    code = f"{statement}; import sys; print([m for m in {banned} if m in sys.modules])"
    done = processes.run("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_help_loads_no_entry_point() -> None:
    code = (
        "import importlib.metadata, sys\n"
        "def refuse(**_): raise AssertionError('entry points loaded')\n"
        "importlib.metadata.entry_points = refuse\n"
        "sys.argv = ['dpframe', '--help']\n"
        "from dpframe.cli import main\n"
        "main()\n"
    )
    done = processes.run("-c", code)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
