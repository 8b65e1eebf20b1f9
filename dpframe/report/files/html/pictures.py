"""Figures for the page: what the figures of the record are, if they can be drawn here."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from markupsafe import Markup

from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from dpframe.record.model import Record

MOST_BYTES = 400_000
"""Of all figures together."""
MOST_CELLS = 2_000
"""A figure of more of them shows nothing that can be told apart."""

LEFT_OUT = ("heat-map", "inverse-cdf")
"""The page has its own map, with links; and histograms of the scores say the same."""

_BANNED = {"script", "foreignObject", "image", "iframe", "animate", "set", "a", "handler"}


def pictures(record: Record) -> tuple[list[tuple[str, Markup]], list[str]]:
    """Figures as caption and element, and remarks on those that are left out."""
    if not record.cells:
        return [], []
    if len(record.cells) > MOST_CELLS:
        return [], [f"No figures: more than {MOST_CELLS} cells. `dpframe plot --where` draws some."]
    try:
        from dpframe.report import figures
        from dpframe.report.figures.picture import inline

        found = [kind for kind, reason in figures.kinds(record).items() if reason is None]
    except (DpframeError, ImportError) as error:
        return [], [f"No figures: {error}"]
    shown, notes, room = [], [], MOST_BYTES
    for kind in found:
        if kind in LEFT_OUT:
            continue
        try:
            picture = figures.draw(record, kind)
            element = inline(picture)
        except DpframeError as error:
            notes.append(f"{kind}: {error}")
            continue
        if (size := len(element.encode())) > room:
            notes.append(f"{kind}: left out, for the page's size; `dpframe plot` draws it.")
        elif not harmless(element):
            notes.append(f"{kind}: left out, because it holds more than a drawing.")
        else:
            room -= size
            shown.append((picture.caption or kind, Markup(element)))
    return shown, notes


def harmless(element: str) -> bool:
    """Whether an SVG element is a drawing and nothing else: it fetches and runs nothing."""
    try:
        root = ElementTree.fromstring(element)
    except ElementTree.ParseError:
        return False
    for part in root.iter():
        if not isinstance(part.tag, str) or part.tag.rpartition("}")[2] in _BANNED:
            return False
        for name, value in part.attrib.items():
            plain = name.rpartition("}")[2].lower()
            if plain.startswith("on") or (plain == "href" and not value.startswith("#")):
                return False
            if "url(" in value.replace("url(#", "") or "javascript:" in value.lower():
                return False
    return "@import" not in element
