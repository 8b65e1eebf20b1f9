"""How long an answer took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from dpframe import HostArray
    from dpframe.builtin.attacks.views.view import Columns


class Time:
    """How long an answer took, on this machine."""

    columns: ClassVar[Columns] = "numbers"
    sums: ClassVar[bool] = False
    beside: ClassVar[int] = 0

    def see(self, answers: Any) -> HostArray:
        """Seconds, shape [n, 1]."""
        return np.asarray(answers.seconds, np.float64)[:, None]

    def name(self, column: int, number: int) -> str:
        """What the column holds."""
        return "the time that it took, in seconds,"
