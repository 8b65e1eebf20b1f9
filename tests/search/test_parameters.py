"""Parameters of the mechanism as arms: a search varies them, and claims follow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pytest
from support.black_boxes import sample_in_this_process
from support.searches import Three, spec as three

import dpframe
from dpframe import HostMechanism, Mechanism, PureDP
from dpframe.commands.audit import load
from dpframe.errors import SpecError
from dpframe.report.witness import as_tables
from dpframe.spec.sweep import by_chance, planned, read_ranges

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("coarse_bounds")


class Clipped(HostMechanism, name="clipped"):
    """A sum of values within a bound; large bounds are forgotten in the noise."""

    bound: float = 1.0
    epsilon: float = 1.0

    def claim(self, pair: Any) -> Any:
        return PureDP(self.epsilon)

    def sample(self, rng: Any, data: Any, n: int) -> Any:
        total = np.clip(data, -self.bound, self.bound).sum()
        return total + rng.laplace(scale=2 * min(self.bound, 50.0) / self.epsilon, size=n)


TABLE = {
    "table": [0.5, 2.0, -1e4, 1e4],
    "adjacency": "replace",
    "batch": 6,
    "beyond": {"nan": False},
}


def spec(parameters: Any, **more: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "audit": {"name": "clipped", "trials": 60_000, "seed": 3},
        "search": {"use": "records", "params": TABLE, "parameters": parameters},
        "mechanism": [{"use": "clipped", **more}],
        "attack": [{"use": "identity"}],
        "run": {"stop": "decided"},
    }


def test_a_mistake_at_one_value_of_a_parameter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)
    (cell,) = dpframe.audit(spec({}), trials=3_000, plugins=[Clipped]).cells
    assert cell.verdict == "consistent"
    ranges = {"mechanism.bound": {"low": 1e-3, "high": 1e3, "log": True}}
    record = dpframe.audit(spec(ranges), plugins=[Clipped])
    (cell,) = record.cells
    assert cell.verdict == "violated"
    assert cell.mechanism.params["bound"] == cell.search.parameters["mechanism.bound"] > 50
    assert any("at mechanism.bound = 1000.0" in note for note in cell.estimate.notes)
    assert as_tables(cell, record)["mechanism"][0]["params"]["bound"] > 50


def test_claims_follow_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ε as an arm a true claim is not accused, whatever is claimed for each value."""
    sample_in_this_process(monkeypatch)
    tables = spec({"mechanism": {"epsilon": [0.1, 1.0, 4.0], "bound": [1.0, 30.0]}})
    tables["audit"]["trials"] = 3_000
    (cell,) = dpframe.audit(tables, plugins=[Clipped]).cells
    assert cell.verdict in ("consistent", "inconclusive")
    assert cell.claim.epsilon == cell.mechanism.params["epsilon"]
    assert cell.estimate.epsilon_lower <= cell.claim.epsilon


class Forgets(Mechanism, name="forgets"):
    """Laplace noise for a sensitivity of 3, with ε; less of it from a steepness of 5 on."""

    epsilon: float = 1.0
    steepness: float = 1.0

    def claim(self, pair: Any) -> Any:
        return PureDP(self.epsilon)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        scale = jax.numpy.where(self.steepness > 5, 1.0, 3.0) / self.epsilon
        return data + scale * jax.random.laplace(key, (n, *data.shape))


@pytest.mark.slow
def test_traced_mechanisms_are_varied_too_and_settings_share_no_draws() -> None:
    ranges = {"mechanism.steepness": {"low": 1.0, "high": 9.0}}
    search = {"use": "three", "parameters": ranges}
    tables = three({"use": "forgets"}, trials=30_000, search=search)
    (cell,) = dpframe.audit(tables, plugins=[Three, Forgets]).cells
    assert cell.verdict == "violated"
    assert cell.search.parameters["mechanism.steepness"] > 5
    groups = set()
    for values in ([1.0], [2.0]):
        search = {"use": "three", "parameters": {"mechanism.steepness": values}}
        (one,) = load(three({"use": "forgets"}, search=search), plugins=[Three, Forgets]).cells
        groups |= {maker_group(one, setting) for setting in planned(one.search.parameters)}  # type: ignore[union-attr]
    assert len(groups) == 3


def maker_group(cell: Any, setting: Any) -> str:
    from types import SimpleNamespace

    from dpframe.search.proposals import ArmMaker

    maker = SimpleNamespace(search=cell.search)
    return ArmMaker.group(maker, ["same"], setting)  # type: ignore[arg-type]


def test_a_program_is_varied_in_its_params(tmp_path: Path) -> None:
    box = tmp_path / "box.py"
    box.write_text("def prepare(params, data):\n    return lambda: 0\n")
    text = f"""
schema = 1
audit = {{ name = "t", trials = 100 }}
[search]
use = "records"
params = {{ table = [1.0, 2.0], adjacency = "replace" }}
[search.parameters]
"mechanism.params.C" = {{ low = 1, high = 100, log = true }}
mechanism.epsilon = [0.5, 2.0]
[[mechanism]]
use = "program"
params = {{ module = "{box.name}", params = {{ k = 1 }}, epsilon = 1.0 }}
"""
    file = tmp_path / "a.toml"
    file.write_text(text)
    (cell,) = load(file, plugins=[box]).cells
    ranges = cell.search.parameters  # type: ignore[union-attr]
    from dpframe.spec.sweep import varied

    box_of = [varied(cell.search.mechanism.value, one) for one in planned(ranges)]  # type: ignore[union-attr]
    assert [one.arguments().get("C") for one in box_of][:2] == [None, 1]
    assert {one.claim(None).epsilon for one in box_of} == {0.5, 1.0, 2.0}
    assert all(one.arguments()["k"] == 1 for one in box_of)


def test_values_lie_inside_and_reach_the_ends() -> None:
    tables = {
        "mechanism.C": {"low": 1e-3, "high": 1e3, "log": True},
        "mechanism": {"n": {"low": 1, "high": 5}},
    }
    ranges = read_ranges(tables)
    assert planned(ranges)[0] == ()
    ends = {json.loads(value) for setting in planned(ranges) for _, value in setting}
    assert {1e-3, 1e3, 1, 5, 3} <= ends
    rng = np.random.default_rng(0)
    near = None
    for _ in range(300):
        near = by_chance(ranges, rng, near)
        for key, value in near:
            number = json.loads(value)
            low, high = (1, 5) if key.endswith("n") else (1e-3, 1e3)
            assert low <= number <= high
            assert isinstance(number, int if key.endswith("n") else float)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"mechanism.bond": [1.0]}, "no mechanism of this spec has a parameter 'bond'"),
        ({"pair.x": [1.0]}, "must name a parameter of the mechanism"),
        ({"mechanism.bound": []}, "empty list"),
        ({"mechanism.bound": 3.0}, "should be a list of values"),
        ({"mechanism.bound": {"low": 2.0, "high": 1.0}}, "low must be below high"),
        ({"mechanism.bound": {"low": 0.0, "high": 1.0, "log": True}}, "above 0 with log"),
        ({"mechanism.bound": {"low": 0.0, "hgih": 1.0}}, "should be a list"),
        ({"mechanism.bound": ["a"]}, "bound"),
    ],
)
def test_mistakes(parameters: Any, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        load(spec(parameters), plugins=[Clipped])


def test_a_swept_parameter_is_no_arm() -> None:
    tables = spec({"mechanism.bound": [1.0]}) | {"sweep": {"mechanism.bound": [1.0, 2.0]}}
    with pytest.raises(SpecError, match="is swept too"):
        load(tables, plugins=[Clipped])
