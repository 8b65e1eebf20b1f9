"""Reports of a record.

`dpframe.report` is both this package and a public function, so the package can be called:
`dpframe.report(record, path)` calls `dpframe.report.delivery.report`.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, record: Any, path: Any = None) -> Any:
        from dpframe.report.delivery import report

        return report(record, path)


sys.modules[__name__].__class__ = _Callable
