"""Count the files and functions of dpframe that the simplest audit enters and imports.

    python tests/benchmarks/entered.py [--list]

One Laplace mechanism, order statistics, 20,000 trials. Bodies of modules and classes, and
comprehensions, are left out.
"""

from __future__ import annotations

import inspect
import sys
import threading
from pathlib import Path
from types import FrameType

import dpframe

PACKAGE = str(Path(dpframe.__file__).parent)
SPEC = {
    "schema": 1,
    "audit": {"name": "entered", "trials": 20_000},
    "pair": {"use": "zeros-ones"},
    "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
    "attack": [{"use": "identity"}],
    "estimator": [{"use": "order-statistics"}],
}
entered: set[tuple[str, str, int]] = set()


def note(frame: FrameType, event: str, _: object) -> None:
    """Note every call of a function of dpframe."""
    code = frame.f_code
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    if event == "call" and function and code.co_filename.startswith(PACKAGE):
        entered.add(
            (code.co_filename.removeprefix(PACKAGE + "/"), code.co_name, code.co_firstlineno)
        )


def main() -> None:
    """Run the audit and print the counts."""
    threading.setprofile(note)
    sys.setprofile(note)
    record = dpframe.audit(SPEC)
    assert [cell.status for cell in record.cells] == ["ok"], record.skipped
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    files = sorted({file for file, _, _ in entered})
    imported = [name for name in sys.modules if name.split(".")[0] == "dpframe"]
    print(
        f"{len(files)} files and {len(entered)} functions entered, {len(imported)} modules imported"
    )
    if "--list" in sys.argv:
        for file in files:
            print(f"  {sum(one == file for one, _, _ in entered):4} {file}")


if __name__ == "__main__":
    main()
