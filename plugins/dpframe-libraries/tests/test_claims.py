"""Programs are called with the claims of the adapters, for the neighbours that the claims name."""

import ast
import inspect
import json

import dpframe_libraries
import numpy as np
import pytest
from dpframe_libraries.base import PROGRAMS

from dpframe.plugins import Values

CLASSES = dpframe_libraries.dpframe_mechanisms()
NEEDED = {
    "diffprivlib-tool": {"tool": "mean"},
    "diffprivlib-noise": {"mechanism": "Laplace"},
    "diffprivlib-choice": {"mechanism": "Binary"},
    "opendp-statistic": {"statistic": "sum"},
    "opacus-step": {"epsilon": 1.0},
    "opacus-engine": {"epsilon": 1.0},
    "pydp": {"algorithm": "Count"},
}
MADE = {cls.name: cls.from_params(NEEDED.get(cls.name, {})) for cls in CLASSES}


def pair(adjacency):
    return Values(d0=np.array([0.0]), d1=np.array([1.0]), adjacency=adjacency)


def test_all_libraries_are_there():
    assert {name.partition("-")[0] for name in MADE} == {
        *("datasynthesizer", "diffprivlib", "jax", "opacus", "opendp", "pipeline", "pure", "pydp"),
        *("multi", "smartnoise"),
    }


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
def test_every_release_says_what_it_is_and_claims(cls):
    text = inspect.getdoc(cls)
    assert "Claim: " in text
    about = "added or removed" if cls.relation == "add-remove" else "replaced"
    assert about in text.replace("\n", " ")


@pytest.mark.parametrize("name", MADE)
def test_a_claim_is_about_its_own_neighbours_only(name):
    made = MADE[name]
    texts = {"replace": "replace one record", "add-remove": "add or remove one record"}
    other = texts.pop("add-remove" if made.relation == "replace" else "replace")
    (own,) = texts.values()
    assert made.claim(pair(own)) is not None
    assert made.claim(pair("as given")) is not None
    with pytest.raises(ValueError, match=f'write adjacency = "{made.relation}"'):
        made.claim(pair(other))


def epsilon(name, at=0.0, **params):
    cls = type(MADE[name])
    claim = cls.from_params({**NEEDED.get(name, {}), **params}).claim(pair("as given"))
    return claim.epsilon_at(at)


def test_claims_are_what_the_libraries_say():
    """`map` of OpenDP 0.16 and `accounted` of Opacus 1.6, as they answered."""
    assert epsilon("opendp-randomized-response-bitvec") == pytest.approx(2.1972245773362196)
    assert epsilon("opendp-randomized-response-bool") == pytest.approx(1.0986122886681098)
    assert epsilon("opendp-randomized-response") == pytest.approx(1.7917594692280552)
    assert epsilon("opendp-laplace", epsilon=0.25) == 0.25
    assert epsilon("diffprivlib-noise", 0.1, mechanism="Uniform", delta=0.1) == 0.0
    assert epsilon("opacus-step", 1e-5, epsilon=0.5) == 0.5
    assert epsilon("jax-privacy-gradient", 0.5, noise_multiplier=1.0) < 1.0


@pytest.mark.parametrize("name", MADE)
def test_programs_get_plain_values_and_know_the_release(name):
    made = MADE[name]
    asked = json.loads(json.dumps(made.arguments()))
    assert "environment" not in asked
    text = (PROGRAMS / made.module).read_text(encoding="utf-8")
    assert f'"{asked["release"]}"' in text or asked["release"] in (
        "client",
        "algorithm",
        "metric",
        "gradient",
    )


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_programs_are_files_of_python_3_8_without_dpframe(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.startswith("dpframe")]


def test_counts_are_kept_apart_where_any_program_is_another(monkeypatch, tmp_path):
    from dpframe_libraries import base

    made = MADE["pydp"]
    before = made.code()
    for path in PROGRAMS.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(base, "PROGRAMS", tmp_path)
    assert made.code() == before
    with (tmp_path / "library_tables.py").open("a") as file:
        file.write("# another\n")
    assert made.code() != before


def test_only_statistics_say_what_they_are_without_noise():
    assert [name for name, made in MADE.items() if made.has_query()] == ["opendp-statistic"]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"protocol": "L-GRR", "epsilon": 4.0}, "not above"),
        ({"between": [0, 4]}, "0 to 3"),
        ({"protocol": "SPL-GRR", "between": [0, 1]}, "several attributes"),
        ({"protocol": "SUE", "reports": 2}, "only with GRR"),
        ({"reports": 2, "permanent": 0.5}, "not above"),
    ],
)
def test_reports_of_multi_freq_ldpy_refuse_what_cannot_be(params, problem):
    with pytest.raises(ValueError, match=problem):
        type(MADE["multi-freq-ldpy"]).from_params(params)


def test_many_reports_claim_the_loss_of_the_memoised_response():
    made = type(MADE["multi-freq-ldpy"])
    several = {"epsilon": 1.0, "permanent": 3.0, "reports": 5}
    assert made.from_params(several).claim(pair("replace one record")).epsilon == 3.0
    with pytest.raises(ValueError, match="replace"):
        made.from_params(several).claim(pair("add or remove one record"))
