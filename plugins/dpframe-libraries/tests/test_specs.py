"""The specs of libraries: whole everywhere, and with what they expect where they can be run."""

import re
import tomllib
from pathlib import Path

import dpframe_libraries
import pytest

import dpframe
from dpframe import environments as place
from dpframe.environments import Wanted

SPECS = sorted((Path(__file__).parents[3] / "specs" / "libraries").glob("*.toml"))
if not SPECS:
    pytest.skip("the specs are in dpframe's checkout", allow_module_level=True)
PAIRS = ("ldp-auditor", "ldp-auditor-pure-ldp", "multi-freq-ldpy-pair", "multi-freq-ldpy-memoised")
EACH = pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)


def read(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def unbuilt(spec):
    """Environments of a spec that are not built."""
    wanted = {name: Wanted(name, tuple(listed)) for name, listed in spec["environments"].items()}
    return [name for name, one in wanted.items() if place.found(one, "").problem]


@EACH
def test_a_spec_is_whole_without_any_library(path):
    spec, names = read(path), {cls.name for cls in dpframe_libraries.dpframe_mechanisms()}
    swept = spec.get("sweep", {}).get("mechanism.environment", [])
    used = [each["params"].get("environment") for each in spec["mechanism"] if "params" in each]
    assert {each["use"] for each in spec["mechanism"]} <= names
    assert {*used, *swept} - {None} == set(spec["environments"])


@EACH
def test_every_version_is_pinned_by_wheels_alone(path):
    for name, listed in read(path)["environments"].items():
        library = name.replace(" ", "==").lower()
        plain = [re.sub(r"\[.*\]|--no-deps ", "", each).lower() for each in listed]
        assert library in plain
        assert all("==" in each and "/" not in each for each in plain), listed


@EACH
def test_a_search_names_no_pair_and_no_event(path):
    spec = read(path)
    if path.stem in PAIRS:
        assert "search" not in spec
        return
    assert "pair" not in spec
    assert "attack" not in spec
    assert spec["search"]["use"] == "records"
    assert not any("use" in each.get("search", {}) for each in spec["mechanism"])


@pytest.mark.slow
@EACH
def test_a_spec_finds_what_it_expects(path):
    spec = read(path)
    if missing := unbuilt(spec):
        pytest.skip(f"dpframe environments build {path.name} has not made {', '.join(missing)}")
    record = dpframe.audit(path, plugins=dpframe_libraries.dpframe_mechanisms())
    told = {cell["mechanism"]["label"]: cell for cell in record["cells"]}
    assert told
    for label, cell in told.items():
        assert cell["status"] == "ok", (label, cell["reason"])
        if cell["expected"] == "violated":
            assert cell["verdict"] == "violated", label
        elif cell["expected"] is not None:
            assert cell["verdict"] != "violated", (label, cell["reason"])
