"""Kinds of answers, and exact answers, as categories."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpframe.builtin.attacks.views.view import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe import HostArray
    from dpframe.builtin.attacks.views.view import Columns


@dataclasses.dataclass(frozen=True)
class Kinds:
    """Which kind of answer it is, or, with `exact`, which answer to the last bit."""

    exact: bool = False
    columns: ClassVar[Columns] = "hashes"

    def see(self, answers: Any) -> HostArray:
        """The first half of each code: two answers in 2³² have the same by chance."""
        codes = np.asarray(answers.values if self.exact else answers.kinds, np.uint64)
        return (codes >> np.uint64(32)).astype(np.uint32)[:, None]

    def told(self, column: int, number: int, codes: list[int], words: Mapping[int, str]) -> str:
        """The texts of the codes, which travel with the answers."""
        known = {code >> 32: text for code, text in words.items()}
        texts = [known[code] for code in codes if code in known]
        if more := len(codes) - len(texts):
            what = ("answer", "answers") if self.exact else ("kind", "kinds")
            texts.append(
                f"one {what[0]} that is not written out"
                if more == 1
                else f"one of {more} {what[1]} that are not written out"
            )
        if self.exact:
            return f"is {listed(texts)}"
        raised = [text for text in texts if text.startswith("raises ")]
        given = [text for text in texts if not text.startswith("raises ")]
        parts = [listed(raised)] if raised else []
        return " or ".join([*parts, *([f"gives {listed(given)}"] if given else [])])
