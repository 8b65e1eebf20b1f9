"""The documents as a site: `sphinx-build -W docs site`.

Every page is plain Markdown that needs no site. Made here are the table of contents, from the list
in README.md; the reference of the Python names, the options of commands, the parameters of the
built-in plugins, the members of base classes, the keys of a record and the columns of a CSV report
(`tables.py`).
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

import dpframe
from dpframe.interfaces import hookspecs
from dpframe.results.model import Record
from dpframe.results.rows import COLUMNS

sys.path.insert(0, str(Path(__file__).parent))
from tables import record_keys, table, with_members, with_options, with_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

project = "dpframe"
project_copyright = author = "the dpframe authors"
release = version = dpframe.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"  # the page that a folder shows
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_heading_anchors = 4
default_role = "code"  # the role of text in single backquotes in docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"

html_theme = "furo"
html_title = "dpframe"
html_additional_pages = {"index": "home.html"}
html_copy_source = False
html_show_sphinx = False

API = "reference/api"
BUILT_INS = "reference/built-ins"
COMMANDS = "reference/command-line"
PLUGINS = "reference/plugins"
RECORD = "reference/record"
KEYS = "<!-- the table of all keys, on the website -->"
REPORTS = "how-to/make-reports"
CSV_COLUMNS = "<!-- the table of all columns, on the website -->"
DOCS = Path(__file__).resolve().parent
logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _complete)
    app.connect("autodoc-process-docstring", _escape)
    app.connect("builder-inited", _demand_docstrings)
    app.connect("html-page-context", _accessible, priority=900)


def _complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds to a page what is made, and names files that are no part of the site."""

    def outside(link: re.Match[str]) -> str:
        target = (DOCS / page).parent.joinpath(link[2]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():
            return link[0]
        return f"{link[1]} (`{target.relative_to(DOCS.parent)}`)"

    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#\s]+)[^)]*\)", outside, source[0])
    if page == root_doc:
        source[0] += "\n" + "\n".join(_contents(source[0]))
    elif page == BUILT_INS:
        source[0] = with_parameters(source[0])
    elif page == COMMANDS:
        source[0] = with_options(source[0])
    elif page == PLUGINS:
        source[0] = with_members(source[0])
    elif page == RECORD:
        source[0] = source[0].replace(KEYS, table(("key", "meaning"), record_keys(Record)))
    elif page == REPORTS:
        columns = ((f"`{name}`", meaning) for name, meaning in COLUMNS.items())
        source[0] = source[0].replace(CSV_COLUMNS, table(("column", "meaning"), columns))
    elif page == API:
        source[0] += "\n```{eval-rst}\n" + "\n".join(_reference()) + "\n```\n"


def _contents(text: str) -> Iterator[str]:
    """Tables of contents: one for every heading, with each page where it is named first."""
    listed: set[str] = set()
    for part in re.split(r"^## ", text, flags=re.MULTILINE):
        caption, _, rest = part.partition("\n")
        pages = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", rest))
        if found := [page for page in pages if page not in listed]:
            listed.update(found)
            yield from ("```{toctree}", ":hidden:", f":caption: {caption}", "", *found, "```")


CALLED = {"report": "dpframe.report.delivery.report"}
"""Packages that can be called, and the function that is then called."""


def _public() -> list[str]:
    """Names with docstrings of their own, those of users first."""
    names = dict.fromkeys([*dpframe.__all__, *dpframe.plugins.__all__])
    return [n for n in names if inspect.isroutine(_of(n)) or _is_class(n) or n in CALLED]


def _module(name: str) -> str:
    return "dpframe" if name in dpframe.__all__ else "dpframe.plugins"


def _of(name: str) -> object:
    return getattr(dpframe, name)


def _is_class(name: str) -> bool:
    return inspect.isclass(_of(name)) and _of(name).__module__.startswith("dpframe")


def _reference() -> Iterator[str]:
    """Directives for every public name."""
    for name in _public():
        if _is_class(name):
            yield from (
                f".. autoclass:: {_module(name)}.{name}",
                "   :members:",
                "   :show-inheritance:",
                "",
            )
        else:
            yield from (f".. autofunction:: {CALLED.get(name, f'{_module(name)}.{name}')}", "")


def _escape(
    app: Sphinx, what: str, name: str, of: object, options: object, lines: list[str]
) -> None:
    """Shapes such as [n, *dims] are no emphasis."""
    lines[:] = [re.sub(r"(\[|, )\*(?=\w)", r"\1\\*", line) for line in lines]


def _demand_docstrings(app: Sphinx) -> None:
    """Warns of public names and hooks without a docstring; with -W the build fails."""
    hooks = [name for name in vars(hookspecs) if name.startswith("dpframe_")]
    for owner, names in ((dpframe, _public()), (hookspecs, hooks)):
        for name in names:
            if not inspect.cleandoc(getattr(owner, name).__doc__ or ""):
                logger.warning("%s has no docstring", f"{owner.__name__}.{name}")
    for name in filter(_is_class, _public()):
        for member in _members(_of(name)):
            if not inspect.getdoc(getattr(_of(name), member)):
                logger.warning("dpframe.%s.%s has no docstring", name, member)


def _members(cls: object) -> Iterator[str]:
    """Public methods and properties of a class, those of its own bases too."""
    for base in getattr(cls, "__mro__", ()):
        if base.__module__.startswith("dpframe"):
            for name, of in tuple(vars(base).items()):
                called = getattr(of, "fget", None) or getattr(of, "__func__", of)
                of_its_own = getattr(called, "__name__", "") == name
                if not name.startswith("_") and inspect.isfunction(called) and of_its_own:
                    yield name


def _accessible(
    app: Sphinx, page: str, template: str, context: dict[str, object], tree: object
) -> None:
    """Gives captions of contents a level, and the keyboard a way to scroll blocks of code."""
    for key, old, new in (
        ("furo_navigation_tree", 'role="heading"', 'role="heading" aria-level="2"'),
        ("body", "<pre>", '<pre tabindex="0">'),
    ):
        if isinstance(text := context.get(key), str):
            context[key] = text.replace(old, new)
