"""Audits of a small synthesizer: planted mistakes are found, the right form is not."""

import pytest
from dpframe_pipelines import audit_synthesizer
from dpframe_pipelines.synthetic import Synthesizer
from pipelines_support import marginals

import dpframe


def synthesizer(mistake="", epsilon=1.0):
    def fit(rng, rows):
        return marginals.fit(rng, rows, epsilon, mistake)

    return fit


def audited(fit, fits=200, **more):
    columns = marginals.SCHEMA
    record = audit_synthesizer(
        fit, marginals.TABLE, columns=columns, epsilon=1.0, fits=fits, **more
    )
    return record.cells[0], record.summary


def test_bounds_from_the_data_are_found_in_200_fits():
    cell, summary = audited(synthesizer("bounds"))
    assert cell.verdict == "violated"
    assert summary.calls <= 200
    assert cell.search.event.startswith("the smallest value of age is above ")
    assert cell.mechanism.use == "fit"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mistake", ["bounds", "categories", "seed"])
def test_planted_mistakes_are_found_in_200_fits(mistake, seed):
    cell, summary = audited(synthesizer(mistake), seed=seed)
    assert cell.verdict == "violated"
    assert summary.calls <= 200


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_marginal_without_noise_is_found(seed):
    cell, _ = audited(synthesizer("exact"), 400, seed=seed)
    assert cell.verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_right_synthesizer_is_consistent(seed):
    cell, _ = audited(synthesizer(), 4000, seed=seed)
    assert cell.verdict == "consistent"
    assert cell.search.pairs == 20


PROGRAM = """
def prepare(params, table):
    (column,) = params["columns"]

    def fit():
        return {column["name"]: [sum(row[0] for row in table) / max(1, len(table))]}

    return fit
"""


@pytest.mark.slow
def test_a_program_is_audited(tmp_path):
    path = tmp_path / "means.py"
    path.write_text(PROGRAM)
    columns = [{"name": "x", "low": 0.0, "high": 1.0}]
    record = audit_synthesizer(path, [[0.5], [0.25]], columns=columns, epsilon=1.0, fits=200)
    (cell,) = record.cells
    assert cell.verdict == "violated"
    assert cell.mechanism.params["file"] == str(path)


def test_a_program_needs_consent(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("def prepare(params, table):\n    return lambda: table\n")
    given = {"file": str(path), "columns": [{"name": "x", "low": 0, "high": 1}], "epsilon": 1.0}
    with pytest.raises(ValueError, match="--plugin"):
        Synthesizer.from_params(given)


@pytest.mark.parametrize("columns", [[], [{"name": "age", "user": True}], [{"name": "age"}]])
def test_columns_are_checked(columns):
    with pytest.raises((ValueError, dpframe.DpframeError)):
        audit_synthesizer(synthesizer(), marginals.TABLE, columns=columns, epsilon=1.0)
