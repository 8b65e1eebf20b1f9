"""Mutated specs: each is an audit or a list of mistakes, and nothing else ever comes of it.

`DPFRAME_FUZZ=1000000 pytest tests/spec/test_fuzz.py` tries a million of them, other ones with
`DPFRAME_FUZZ_FROM=2000000`.
"""

from __future__ import annotations

import os
import signal

import pytest
import tomli
from support.mutated_specs import Case, Mutator

from dpframe.errors import SpecError
from dpframe.interfaces import registry
from dpframe.spec import load_audit, tables as load
from dpframe.spec.document import DEEPEST, Locator

CASES = int(os.environ.get("DPFRAME_FUZZ", "0"))
FIRST = int(os.environ.get("DPFRAME_FUZZ_FROM", "0"))
PATIENCE = 20
"""Seconds for one case; most take less than a thousandth of this."""

LONGEST = 5_000


@pytest.fixture(scope="module")
def mutator(root):
    texts = [file.read_text(encoding="utf-8") for file in sorted(root.glob("specs/**/*.toml"))]
    return Mutator(texts)


@pytest.fixture(scope="module")
def plugins():
    return registry.load()


def outcome(case: Case, plugins, patch) -> list[str] | None:
    """The mistakes found, or None if there are none."""
    patch.setattr(load, "read_regular", lambda path, most: case.content)  # files take too long
    try:
        load_audit(
            "spec.toml",
            registry=plugins,
            overrides=case.overrides,
            trials=case.trials,
            seed=case.seed,
        )
    except SpecError as error:
        return str(error).split("\n")
    return None


@pytest.fixture
def _no_hang():
    def give_up(*_):
        raise TimeoutError(f"a case took more than {PATIENCE} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_no_hang")
@pytest.mark.parametrize(
    "cases", [CASES or 300, pytest.param(CASES or 10_000, marks=pytest.mark.slow)]
)
def test_an_audit_or_mistakes_and_nothing_else(mutator, plugins, monkeypatch, cases):
    right, failures = 0, []
    for number in range(FIRST, FIRST + cases):
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            lines = outcome(mutator.case(number), plugins, monkeypatch)
        except Exception as error:
            failures.append((number, f"{type(error).__name__}: {error}"))
            continue
        right += lines is None
        wrong = [line for line in lines or () if not line.isprintable() or len(line) > LONGEST]
        failures += [(number, line) for line in wrong]
    assert failures[:20] == []
    assert 0.02 * cases < right < 0.5 * cases  # some get past all checks, most do not


def test_a_case_is_known_by_its_number(mutator):
    before = [mutator.case(number) for number in range(300)]
    assert [mutator.case(number) for number in range(300)] == before


def test_every_key_of_what_is_toml_has_a_line(mutator):
    read = 0
    for number in range(800):
        try:
            text = mutator.case(number).content.decode("utf-8-sig")
            tables = tomli.loads(text)
        except ValueError:
            continue
        read += 1
        locator = Locator(text.replace("\r\n", "\n"))
        lines = [locator.line(path) for path in paths(tables)]
        assert None not in lines
        assert all(locator.lines[line - 1].strip() for line in lines)
    assert read > 200


def paths(value, path=()):
    """The paths of everything in a document that is not too deep to be a spec."""
    if path:
        yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in steps:
        if isinstance(inner, dict | list) and len(path) < DEEPEST:
            yield from paths(inner, (*path, step))
        else:
            yield (*path, step)
