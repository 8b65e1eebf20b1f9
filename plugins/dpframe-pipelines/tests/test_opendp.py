"""OpenDP's Polars contexts: the spec is whole, and finds what it expects where OpenDP is built."""

import re
import tomllib
from pathlib import Path

import pytest
from dpframe_pipelines import audit_sql, shrink
from dpframe_pipelines.sql import SqlEngine, UsersAndQueries

import dpframe
from dpframe.environments import Wanted, found

SPECS = Path(__file__).parents[1] / "specs"
PROGRAM = SPECS / "opendp_polars.py"
SPEC = tomllib.loads((SPECS / "opendp-polars.toml").read_text(encoding="utf-8"))
((NAME, REQUIREMENTS),) = SPEC["environments"].items()


@pytest.fixture(scope="module")
def python():
    there = found(Wanted(NAME, tuple(REQUIREMENTS)), "")
    if there.problem:
        pytest.skip(f"dpframe environments build opendp-polars.toml has not made {NAME}")
    return there.interpreter


def test_the_spec_knows_its_program_and_its_columns():
    variants = {each["params"].get("variant", "") for each in SPEC["mechanism"]}
    named = re.findall(r'misuse == "([^"]+)"', PROGRAM.read_text(encoding="utf-8"))
    assert variants == {"", "rows", *named}
    columns = SPEC["search"]["params"]["columns"]
    assert all(each["params"]["columns"] == columns for each in SPEC["mechanism"])
    wrong = [each["label"] for each in SPEC["mechanism"] if each["params"].get("variant")]
    assert SPEC["expect"][1] == {"where": {"mechanism": wrong}, "verdict": "violated"}


def test_a_program_gets_its_variant_and_the_joined_columns(monkeypatch):
    monkeypatch.setattr(SqlEngine, "consented", staticmethod(lambda path: path))
    columns = [{"name": "user", "user": True}, {"name": "city", "categories": ["a", "b"]}]
    joined = [{"name": "city", "categories": ["a", "b"]}, {"name": "x", "low": 0, "high": 1}]
    told = {"file": str(PROGRAM), "columns": columns, "joined": joined, "epsilon": 1.0}
    given = SqlEngine.from_params({**told, "variant": "rows"}).arguments()["given"]
    assert given["variant"] == "rows"
    assert (
        given["joined"]
        == UsersAndQueries.from_params({"columns": columns, "joined": joined}).params()["joined"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_spec_finds_what_it_expects(seed, python):
    record = dpframe.audit(
        SPECS / "opendp-polars.toml",
        plugins=[PROGRAM],
        pythons={NAME: python},
        overrides=[f"audit.seed={seed}", "audit.trials=1500"],
    )
    assert len(record.cells) == len(SPEC["mechanism"])
    assert [c.verdict for c in record.cells] == [c.expected for c in record.cells]


@pytest.mark.slow
def test_a_finding_in_opendp_is_shrunk(python):
    columns = SPEC["search"]["params"]["columns"]
    more = {"columns": columns, "epsilon": 1.0, "variant": "rows", "python": python}
    record = audit_sql(PROGRAM, **more, trials=500)
    smallest = shrink(record, PROGRAM, trials=200, python=python).cells[0]
    assert smallest.verdict == "violated"
    assert smallest.pair.params["description"] == "SELECT COUNT(*) AS value FROM data"
    assert 2 <= len(smallest.pair.params["d0"]["rows"]) <= 4
