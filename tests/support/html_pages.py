"""Reads a page of HTML with the parser of the standard library, and finds what is wrong with it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

INLINE = {"strong", "span", "a", "code"}
VOID = {"meta", "br", "link", "img", "input", "hr", "base"}


class Page(HTMLParser):
    """The elements of a page; every one must be closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags = Counter[str]()
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.problems: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self._open]
        ids = Counter(a["id"] for _, a in self.attributes if "id" in a)
        self.problems += [f"id {name} is there {n} times" for name, n in ids.items() if n > 1]
        self.ids = set(ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.texts.append("" if tag in INLINE else " ")
        self.attributes.append((tag, dict(attrs)))
        if len(dict(attrs)) < len(attrs):
            self.problems.append(f"<{tag}> has an attribute twice")
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"</{tag}> closes {self._open[-1:]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not {"style", "script"}.intersection(self._open):
            self.texts.append(data)

    @property
    def text(self) -> str:
        """Return the visible text, and the text for screen readers."""
        return " ".join("".join(self.texts).split())

    def values(self, attribute: str) -> list[str]:
        """All values of an attribute."""
        return [a[attribute] or "" for _, a in self.attributes if attribute in a]
