"""Messages name the faulty line of code in one line."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dpframe import Mechanism, Pair
from dpframe.builtin.pure_mechanisms import Geometric
from dpframe.common import text
from dpframe.common.text import message, place, raised_in
from dpframe.errors import CellError
from dpframe.interfaces.plugin_calls import call_plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def caught(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package of an author's, with a part of its own, and a library that it uses."""
    (tmp_path / "author" / "parts").mkdir(parents=True)
    (tmp_path / "author" / "__init__.py").write_text("")
    (tmp_path / "author" / "parts" / "__init__.py").write_text("")
    (tmp_path / "author" / "parts" / "deep.py").write_text(
        "import library\n\n\ndef deep(how):\n    return library.work(how)\n"
    )
    (tmp_path / "author" / "top.py").write_text(
        "from author.parts.deep import deep\n\n\ndef top(how='raise'):\n    return deep(how)\n"
    )
    (tmp_path / "library.py").write_text("def work(how):\n    return {'raise': 1 / 0}[how]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("author.top")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("author", "library")]:
        del sys.modules[name]


def test_the_place_is_the_last_line_of_the_authors_own(package: Any) -> None:
    error = caught(lambda: call_plugin("sample", package.top))
    assert isinstance(error, CellError)
    said = "sample raised ZeroDivisionError: division by zero (author/parts/deep.py:5)"
    assert str(error) == said


def test_libraries_are_not_to_blame() -> None:
    error = caught(lambda: np.zeros(3).reshape(2, 2))
    assert place(error).startswith("test_error_messages.py:")
    error.__traceback__ = None
    assert place(error) == ""


def test_what_a_built_in_asks_of_a_pair_is_the_pairs() -> None:
    class Broken(Pair, name="broken"):
        adjacency = "x"

        @property
        def d0(self) -> Any:
            raise ValueError("no data")

        d1 = d0

    error = caught(lambda: Geometric(epsilon=1.0).resolve(Broken()))
    assert raised_in(error, Broken)
    assert not raised_in(error, Mechanism)
    assert place(error).startswith("test_error_messages.py:")


def test_a_built_in_is_an_author_too() -> None:
    class Halves(Pair, name="halves"):
        adjacency = "x"
        d0 = np.zeros(1)
        d1 = np.full(1, 0.5)

    error = caught(lambda: Geometric(epsilon=1.0).resolve(Halves()))
    error.__traceback__ = error.__traceback__.tb_next.tb_next
    assert place(error).startswith("dpframe/builtin/pure_mechanisms.py:")
    assert not raised_in(error, Halves)


class UntoldError(Exception):
    def __str__(self) -> str:
        raise KeyError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("plain"), "plain"),
        (ValueError(), "no message"),
        (ValueError("two\n  lines"), "two lines"),
        (ValueError("first\n" + "x" * 1000), "first"),
        (ValueError("\x1b[2J\u202e"), r"\x1b[2J\u202e"),
        (UntoldError(), "its message raised KeyError"),
    ],
)
def test_a_message_is_one_line(error: BaseException, text: str) -> None:
    assert message(error) == text


def test_a_long_line_is_cut() -> None:
    found = message(ValueError("x" * 10_000))
    assert len(found) == text.LONGEST_LINE
    assert found.endswith("…")


def test_the_whole_traceback_is_printed_once_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> str:
        with pytest.raises(CellError):
            call_plugin("sample", lambda: 1 / 0)
        return capsys.readouterr().err

    assert told() == ""
    monkeypatch.setattr(text, "_printed", set())
    monkeypatch.setenv(text.SWITCH, "1")
    first, second = told(), told()
    assert "Traceback (most recent call last)" in first
    assert first.rstrip().endswith("ZeroDivisionError: division by zero")
    assert second == ""
