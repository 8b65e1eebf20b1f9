import io
import os
from pathlib import Path

import pytest
from rich.console import Console
from support import made_records


@pytest.fixture(scope="session")
def records():
    """The maker of realistic records."""
    return made_records


@pytest.fixture
def show():
    """Renders a record as plain text, lines without trailing blanks."""

    def show(record, width=80, *, encoding="utf-8", colour=False, numbers=True, slack=False):
        from dpframe.report.terminal.render import render
        from dpframe.results.store import as_record

        file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
        console = Console(
            file=file,
            width=width,
            force_terminal=colour,
            color_system="256" if colour else None,
            legacy_windows=False,
            _environ={},
        )
        render(as_record(record), console, numbers=numbers, slack=slack)
        file.flush()
        text = file.buffer.getvalue().decode(encoding)
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"

    return show


@pytest.fixture
def golden():
    """Compares with a file of tests/golden; DPFRAME_UPDATE_GOLDEN=1 writes it."""

    def golden(name, text):
        file = Path(__file__).parents[1] / "golden" / name
        if os.environ.get("DPFRAME_UPDATE_GOLDEN"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return golden
