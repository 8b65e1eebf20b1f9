"""Every source that a docstring names is in the bibliography, and nothing else is."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

from dpframe.interfaces import registry

PAGE = ROOT / "docs" / "reference" / "bibliography.md"
KEY = r"[A-Z][A-Za-z]*(?:19|20)\d\d"
CITED = re.compile(rf"\[({KEY})(?:, [^\]]*)?\]")
BY_AUTHOR = re.compile(
    r"(?:[A-Z][\w’'-]+,?\s+(?:and\s+[A-Z][\w’'-]+\s+|et\s+al\.,?\s+)?)\(?(?:19|20)\d\d\)?[,);.:]"
)
"""Such as "Clopper and Pearson (1934)", "Dwork et al. 2006," or "(Scott 1979)"."""

MODULES = sorted(
    path
    for package in (ROOT / "dpframe", *ROOT.glob("plugins/*/dpframe_*"))
    for path in package.rglob("*.py")
)
ENTRIES = re.findall(r"^\| (\S+) \| (.+?) \| (.*?) ?\|$", PAGE.read_text(encoding="utf-8"), re.M)[
    1:
]


def test_every_key_is_explained_and_every_source_is_used() -> None:
    listed = [key for key, *_ in ENTRIES]
    assert listed == sorted(listed, key=str.lower)
    assert len(listed) == len(set(listed)) > 30
    used = {key for path in MODULES for key in CITED.findall(path.read_text(encoding="utf-8"))}
    assert used == set(listed)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry[0])
def test_an_entry_says_who_what_when_and_where(entry: tuple[str, str, str]) -> None:
    key, source, where = entry
    name, year = re.fullmatch(r"((?:Mc)?[A-Z][a-z]+)[A-Z]*(\d{4})", key).groups()
    assert name in source.replace("á", "a").replace("é", "e").replace("ü", "u").partition(".")[2]
    assert year in source
    for text, link in re.findall(r"\[([^\]]+)\]\((\S+?)\)(?=, |$)", where):
        kind, _, name = text.partition(":")
        plain = link.replace("%28", "(").replace("%29", ")")
        prefix = {"doi": "https://doi.org/", "arXiv": "https://arxiv.org/abs/"}[kind]
        assert plain == prefix + name
        assert re.fullmatch(r"10\.\d{4,}/\S+" if kind == "doi" else r"\d{4}\.\d{4,5}", name)
    assert where.count("](") == len(re.findall(r"\]\(\S+?\)(?=, |$)", where))


def test_every_estimator_names_what_it_rests_on_and_where_that_is() -> None:
    """A reader of a report has no bibliography at hand: the address stands beside the key."""
    where = {key: (text, *re.findall(r"\[([^\]]+)\]", links)) for key, text, links in ENTRIES}
    found = [
        entry for entry in registry.load().of_kind("estimator") if entry.distribution == "dpframe"
    ]
    assert len(found) > 10
    for entry in found:
        cited = re.findall(rf"\[({KEY})(?:, [^\]]*)?\] \(([^)]+)\)", entry.cls.reference)
        assert cited, entry.name
        assert len(cited) == len(CITED.findall(entry.cls.reference)), entry.name
        assert all(address in where[key] for key, address in cited), entry.name


def test_code_cites_by_key() -> None:
    """An author and a year in a docstring are a source without an address."""
    found = {
        path.relative_to(ROOT).as_posix(): BY_AUTHOR.findall(path.read_text(encoding="utf-8"))
        for path in MODULES
    }
    assert {path: texts for path, texts in found.items() if texts} == {}
