"""Reports of a record, for people and for machines.

The package can be called: `dpframe.report(record, path)` is `dpframe.report.made.report`. Python
has one name for a package and for what `dpframe` offers beside it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, record: Any, path: Any = None) -> Any:
        from dpframe.report.made import report

        return report(record, path)


sys.modules[__name__].__class__ = _Callable
