"""Audits of a small synthesizer: planted mistakes are found, the right form is not."""

import json

import numpy as np
import pytest
from dpframe_pipelines import audit_synthesizer
from dpframe_pipelines.programs.table_features import Features
from dpframe_pipelines.synthetic import PlantedRecords, Synthesizer, constant_counts
from pipelines_support import marginals

import dpframe
from dpframe import records_params
from dpframe.testing import check_neighbourhood


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


def test_an_order_of_rows_from_the_data_is_found_in_200_fits():
    cell, summary = audited(synthesizer("order"))
    assert cell.verdict == "violated"
    assert summary.calls <= 200
    assert cell.search.event.startswith("the number of rows with a smaller city than the row")


def test_an_exact_count_is_found_because_it_does_not_vary():
    cell, summary = audited(synthesizer("cell"), 400)
    assert cell.verdict == "violated"
    assert summary.calls <= 200
    count = "number of records with age from 25 to 50 and city = b"
    assert cell.search.event == f"the {count} is below 3.5"
    assert cell.pair.params["description"] == f"the {count} did not vary"
    assert cell.search.neighbourhood.use == "planted-records"


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_pairs_are_planted_for_counts_that_never_vary(adjacency):
    params = records_params(marginals.TABLE, adjacency=adjacency, schema=marginals.SCHEMA)
    features = Features(marginals.SCHEMA, [])

    def planted(mistake):
        def fit(rng, rows):
            return marginals.fit(rng, rows, 1.0, mistake)

        return constant_counts(fit, features, params, 8, 0)

    assert not planted("")
    assert len(planted("seed")) == 5  # one for each kind of record
    (made,) = planted("cell")
    pair = dpframe.plugins.find_plugin("pair", "records").from_params(made)
    counts = [sum(25 <= age < 50 and city == "b" for age, city, _ in d) for d in (pair.d0, pair.d1)]
    assert counts == [4, 3]


def test_no_pair_is_planted_for_tables_that_cannot_be_fitted():
    schema = {"adjacency": "add-remove", "schema": marginals.SCHEMA}
    features = Features(marginals.SCHEMA, [])
    empty = records_params([], **schema)
    assert constant_counts(lambda rng, rows: rows, features, empty, 8, 0) == []
    usual = records_params(marginals.TABLE, **schema)
    assert constant_counts(lambda rng, rows: 1 / 0, features, usual, 8, 0) == []


def test_planted_pairs_come_first_and_in_place_of_others():
    params = records_params(
        marginals.TABLE, adjacency="add-remove", schema=marginals.SCHEMA, batch=4
    )
    planted = {"table": params["table"], "form": "rows", "edit": {"remove": 3}}
    given = {"records": json.dumps(params), "pairs": [json.dumps(planted)]}
    made = PlantedRecords.from_params(given)
    found = made.propose(np.random.default_rng(0), [])
    assert len(found) == 4
    assert found[0].params() == planted
    check_neighbourhood(made)


def test_a_function_needs_no_name():
    record = audit_synthesizer(
        lambda rng, rows: rows, marginals.TABLE, columns=marginals.SCHEMA, epsilon=1.0, fits=64
    )
    assert record.cells[0].mechanism.use == "pipeline"


@pytest.mark.parametrize("fits", [64, 150])
def test_no_more_fits_are_made_than_asked_for(fits):
    _, summary = audited(synthesizer(), fits)
    assert fits - 8 <= summary.calls <= fits


def growth(p, q, epsilon):
    """Return the most that a bet against ε-DP can earn per pair of outputs, in nats.

    The claim allows the pair (p', q') if p'/q' is in [e^-ε, e^ε]. The pair that is closest to
    (p, q) in the sum of both Kullback-Leibler divergences keeps p + q and clips the share of p, if
    p and q are mirror images. No e-value grows faster on average [Grunwald2024, theorem 1].
    """
    most = 1 / (1 + np.exp(-epsilon))
    share = p / (p + q)
    clipped = np.clip(share, 1 - most, most)
    terms = share * np.log(share / clipped) + (1 - share) * np.log((1 - share) / (1 - clipped))
    return float(((p + q) * terms).sum())


def test_a_marginal_counted_twice_cannot_be_found_in_200_fits():
    """Even by an adversary who sees both noisy counts before they are rounded."""
    twice, once = np.arange(-12, 13, 0.05), np.arange(-30, 31, 0.1)
    mean_of_two = (1 + 2 * abs(twice)) * np.exp(-2 * abs(twice)) / 2 * 0.05
    laplace = np.exp(-abs(once) / 2) / 4 * 0.1
    p = np.outer(mean_of_two[20:], laplace[10:])  # one record more moves both counts by 1
    q = np.outer(mean_of_two[:-20], laplace[:-10])
    assert p.sum() == pytest.approx(1, abs=1e-3)
    assert 2 * np.log(1000) / growth(p, q, 1.0) == pytest.approx(396, abs=3)
    assert growth(p, q, 2.6) < 1e-6  # the true ε is 2.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mistake", ["bounds", "categories", "order", "seed"])
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
