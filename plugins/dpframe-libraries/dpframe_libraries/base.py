"""Code shared by all adapters: a program beside this file, and a claim about one record."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from dpframe.plugins import Claim, ForeignMechanism, Gt, Pair, PureDP

PROGRAMS = Path(__file__).parent / "programs"

Bounds = tuple[tuple[float, float], ...]
"""[low, high] of each column of numbers."""
Categories = tuple[str, ...]


class Released(ForeignMechanism):
    """A release by a library; its program runs where the library is installed."""

    part: ClassVar[str]
    """The name of this release in the program."""
    relation: ClassVar[Literal["replace", "add-remove"]] = "replace"
    """The neighbours that the library's claim is about."""

    def code(self) -> str:
        """Return a digest of the source of all programs."""
        files = sorted(PROGRAMS.glob("*.py"))
        return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]

    def arguments(self) -> dict[str, Any]:
        return {"release": self.part, **super().arguments()}

    def about(self, pair: Pair, claim: Claim) -> Claim:
        """Return the claim; raise ValueError if the pair has other neighbours than the claim."""
        texts = {"replace": "replace", "add-remove": "add or remove"}
        other = "add-remove" if self.relation == "replace" else "replace"
        if texts[other] in pair.adjacency and texts[self.relation] not in pair.adjacency:
            raise ValueError(
                f"its claim is about neighbours that {texts[self.relation]} one record: write "
                f'adjacency = "{self.relation}"'
            )
        return claim


class Pure(Released):
    """A release that claims ε."""

    epsilon: Annotated[float, Gt(0)] = 1.0
    """The claimed loss, passed to the library."""

    def claim(self, pair: Pair) -> Claim | None:
        return self.about(pair, PureDP(self.epsilon))


class OfNumbers(Pure):
    """A release of columns of numbers."""

    bounds: Bounds = ((0.0, 1.0),)
    """[low, high] of each column of numbers, as passed to the library."""
    clean: bool = False
    """True if missing values become the lower bound and the rest is clipped before the library sees
    it."""
