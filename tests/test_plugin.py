"""The base of every plugin."""

import contextlib
import dataclasses
import math
from typing import Annotated, ClassVar, Literal

import jax
import pytest
from pydantic import ValidationError

import dpframe
from dpframe import Attack, Estimator, Ge, Gt, HostMechanism, Le, Mechanism, Pair, host_mechanism
from dpframe.claims import PureDP
from dpframe.errors import PluginError
from dpframe.interfaces.plugin import json_schema, parameters, problems_of


class Every(Mechanism, name="every"):
    epsilon: Annotated[float, Gt(0)]
    """The claim,
    in nats."""
    scale: Annotated[float, Gt(0)] | None = None
    low: float = -1.0
    count: Annotated[int, Ge(1), Le(9)] = 3
    """The number."""
    mode: Literal["a", "b"] = "a"
    shape: tuple[int, ...] = ()
    flag: bool = False
    text: str = ""

    def sample(self, key, data, n):
        return data


def test_is_a_frozen_keyword_only_dataclass():
    value = Every(epsilon=1.0)
    assert (value.name, value.kind, value.api) == ("every", "mechanism", 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.epsilon = 2.0
    with pytest.raises(TypeError, match="positional"):
        Every(1.0)
    assert dataclasses.replace(value, count=4) == Every(epsilon=1.0, count=4)
    assert hash(value) == hash(Every(epsilon=1.0))


def test_floats_are_leaves_and_everything_else_is_static():
    assert Every.leaves == ("epsilon", "scale", "low")
    leaves, shape = jax.tree_util.tree_flatten(Every(epsilon=1.0, scale=2.0, count=4))
    assert leaves == [1.0, 2.0, -1.0]
    assert jax.tree_util.tree_unflatten(shape, leaves) == Every(epsilon=1.0, scale=2.0, count=4)
    assert shape == jax.tree_util.tree_structure(Every(epsilon=7.0, scale=9.0, count=4))
    assert shape != jax.tree_util.tree_structure(Every(epsilon=1.0, scale=2.0, count=5))


def test_a_sweep_over_floats_is_traced_once():
    traces = []

    @jax.jit
    def double(value):
        traces.append(value)
        return value.epsilon * 2

    for epsilon in (1.0, 2.0, 3.0):
        assert double(Every(epsilon=epsilon)) == 2 * epsilon
    assert len(traces) == 1


GOOD = [
    {"epsilon": 1},
    {"epsilon": 1e-300, "scale": 2, "low": -5},
    {"epsilon": 1.0, "scale": None, "count": 9, "mode": "b", "shape": [1, 2], "flag": True},
]
BAD = [
    ({}, ("epsilon",), "missing"),
    ({"epsilon": "1.0"}, ("epsilon",), "float_type"),
    ({"epsilon": True}, ("epsilon",), "float_type"),
    ({"epsilon": None}, ("epsilon",), "float_type"),
    ({"epsilon": 0}, ("epsilon",), "greater_than"),
    ({"epsilon": math.inf}, ("epsilon",), "finite_number"),
    ({"epsilon": math.nan}, ("epsilon",), None),
    ({"epsilon": 1.0, "scale": 0.0}, ("scale",), "greater_than"),
    ({"epsilon": 1.0, "scale": "x"}, ("scale",), "float_type"),
    ({"epsilon": 1.0, "count": 0}, ("count",), "greater_than_equal"),
    ({"epsilon": 1.0, "count": 10}, ("count",), "less_than_equal"),
    ({"epsilon": 1.0, "count": 3.0}, ("count",), "int_type"),
    ({"epsilon": 1.0, "count": True}, ("count",), "int_type"),
    ({"epsilon": 1.0, "mode": "c"}, ("mode",), "literal_error"),
    ({"epsilon": 1.0, "shape": [1, "2"]}, ("shape", 1), "int_type"),
    ({"epsilon": 1.0, "shape": 1}, ("shape",), "tuple_type"),
    ({"epsilon": 1.0, "flag": 1}, ("flag",), "bool_type"),
    ({"epsilon": 1.0, "text": 1}, ("text",), "string_type"),
    ({"epsilon": 1.0, "epsilom": 1.0}, ("epsilom",), "unexpected_keyword_argument"),
]


@pytest.mark.parametrize("params", GOOD, ids=str)
def test_plain_values_in_and_out(params):
    value = Every.from_params(params)
    assert isinstance(value.epsilon, float)
    assert isinstance(value.shape, tuple)
    assert Every.from_params(value.params()) == value
    assert params.items() <= value.params().items()


@pytest.mark.parametrize(("params", "place", "kind"), BAD, ids=str)
def test_nothing_is_converted(params, place, kind):
    with pytest.raises(ValidationError) as caught:
        Every.from_params(params)
    [(where, what, message)] = problems_of(caught.value)
    assert where[: len(place)] == place
    assert kind in (what, None)
    assert message


def test_all_wrong_parameters_at_once():
    with pytest.raises(ValidationError) as caught:
        Every.from_params({"epsilon": 0, "count": 0, "x": 1})
    assert len(problems_of(caught.value)) == 3


def test_check_refuses_combinations_of_plain_values_only():
    class Ordered(Pair, name="ordered"):
        adjacency = "replace"
        d0 = d1 = 0
        low: float = 0.0
        high: float = 1.0

        def check(self):
            if self.low >= self.high:
                raise ValueError("low should be below high")

    with pytest.raises(ValueError, match="low should be below high"):
        Ordered.from_params({"low": 2})
    shape = jax.tree_util.tree_structure(Ordered())
    assert jax.tree_util.tree_unflatten(shape, [2.0, 1.0]).low == 2.0, "JAX is not checked"


def test_parameter_table():
    rows = {row.name: row for row in parameters(Every)}
    assert list(rows) == [field.name for field in dataclasses.fields(Every)]
    first = rows["epsilon"]
    assert (first.type, first.default, first.bounds) == ("float", "required", "> 0")
    assert first.meaning == "The claim, in nats."
    assert (rows["scale"].type, rows["scale"].bounds) == ("float | none", "> 0")
    assert (rows["count"].default, rows["count"].bounds) == ("3", "≥ 1, ≤ 9")
    assert (rows["mode"].type, rows["mode"].default) == ('"a" | "b"', '"a"')
    assert rows["text"].meaning == ""


def test_json_schema():
    schema = json_schema(Every)
    assert schema["required"] == ["epsilon"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["count"]["maximum"] == 9
    assert schema["properties"]["count"]["description"] == "The number."


def test_annotations_may_name_what_only_a_function_knows():
    small = Annotated[float, Le(1)]

    class Local(Mechanism, name="local"):
        value: "small" = 0.5

        def sample(self, key, data, n):
            return data

    assert Local.leaves == ("value",)
    assert Local.from_params({"value": 1}).value == 1.0
    with pytest.raises(ValidationError):
        Local.from_params({"value": 2})


def test_class_variables_are_no_parameters():
    class WithConstant(Mechanism, name="with-constant"):
        limit: ClassVar[int] = 3

        def sample(self, key, data, n):
            return data

    assert parameters(WithConstant) == ()
    assert WithConstant.from_params({}).limit == 3


def test_an_annotation_that_does_not_exist_is_named():
    with pytest.raises(PluginError, match=r"Lost: .* names 'Nowhere', which does not exist"):

        class Lost(Mechanism, name="lost"):
            value: "Nowhere" = 0  # noqa: F821

            def sample(self, key, data, n):
                return data


class Noise(Mechanism):
    """Parameters that noisy mechanisms share."""

    epsilon: Annotated[float, Gt(0)]
    """The claim."""
    scale: float | None = None
    """The width; default: the pair's distance."""
    mode: Literal["a", "b"] = "a"

    def resolve(self, pair):
        return dataclasses.replace(self, scale=2.0)

    def claim(self, pair):
        return PureDP(self.epsilon)


class Wide(Noise, name="wide"):
    """Extends an abstract base."""

    count: int = 1
    """The number of times."""
    mode: Literal["a", "b"] = "b"

    def sample(self, key, data, n):
        return data


def test_a_class_without_a_name_is_a_base_for_others():
    value = Wide.from_params({"epsilon": 1})
    assert value.params() == {"epsilon": 1.0, "scale": None, "mode": "b", "count": 1}
    assert Wide.leaves == ("epsilon", "scale")
    assert value.resolve(None) == Wide(epsilon=1.0, scale=2.0)
    leaves, shape = jax.tree_util.tree_flatten(value.resolve(None))
    assert leaves == [1.0, 2.0]
    assert jax.tree_util.tree_unflatten(shape, leaves) == value.resolve(None)
    with pytest.raises(ValidationError):
        Wide.from_params({"epsilon": 0})


def test_inherited_parameters_keep_their_meaning_and_their_bounds():
    rows = {row.name: row for row in parameters(Wide)}
    assert list(rows) == ["epsilon", "scale", "mode", "count"]
    assert (rows["epsilon"].meaning, rows["epsilon"].bounds) == ("The claim.", "> 0")
    assert rows["scale"].meaning == "The width; default: the pair's distance."
    assert (rows["mode"].default, rows["count"].meaning) == ('"b"', "The number of times.")
    assert json_schema(Wide)["properties"]["epsilon"]["description"] == "The claim."


def test_bases_are_extended_over_several_steps_and_never_used():
    class Narrow(Noise):
        width: float = 1.0
        """In metres."""

    class Last(Narrow, name="last"):
        def sample(self, key, data, n):
            return data

    assert [row.meaning for row in parameters(Last)][-1] == "In metres."
    with pytest.raises(TypeError, match=r'Narrow is a base .* class Narrow\(Noise, name="…"\)'):
        Narrow(epsilon=1.0)
    with pytest.raises(TypeError, match="Mechanism is a base"):
        Mechanism()


def test_a_base_shares_methods_of_every_kind():
    class Counting(Estimator):
        certifies = False
        assumption = "none"

        def statistic(self):
            return None

    class Whole(Counting, name="whole"):
        def estimate(self, layout, counts, query):
            return None

    assert Whole().assumption == "none"
    with pytest.raises(TypeError, match="an estimator must have estimate"):
        type(Counting)("Part", (Counting,), {}, name="part")


def test_named_plugins_are_final():
    with pytest.raises(TypeError, match="Every, but you cannot subclass a named plugin"):

        class More(Every, name="more"):
            pass

    with pytest.raises(TypeError, match="put shared code into a class without a name"):

        class Base(Every):
            pass


def define(bases, body, annotations=None, **options):
    """A class statement."""
    own = {"__annotations__": annotations or {}, "sample": noop, "score": noop, **body}
    return type(Mechanism)("Made", bases, own, **options)


MISLEADING = {
    "a name in the body": ((Mechanism,), {"name": "made"}, {}, {}, r'Mechanism, name="…", api=1'),
    "an interface in the body": (
        (Attack,),
        {"api": 2},
        {},
        {"name": "x"},
        "Made.api is not",
    ),
    "a kind in the body": (
        (Attack,),
        {"kind": "attack"},
        {},
        {"name": "x"},
        "Made.kind is not",
    ),
    "a parameter called name": (
        (Attack,),
        {},
        {"name": str},
        {"name": "x"},
        "Made.name is not",
    ),
    "an empty name": ((Mechanism,), {}, {}, {"name": ""}, "the name '' must be a text"),
    "a name with spaces around": ((Mechanism,), {}, {}, {"name": " x"}, "without spaces around"),
    "a name that is no text": ((Mechanism,), {}, {}, {"name": 7}, "the name 7 must be a text"),
    "a name with a slash": ((Mechanism,), {}, {}, {"name": "a/b"}, "without a slash"),
    "a name with an escape": (
        (Mechanism,),
        {},
        {},
        {"name": "a\x1b[2J"},
        r"'a\\x1b\[2J' must",
    ),
    "a name that turns round": ((Mechanism,), {}, {}, {"name": "a\u202e"}, "must be printable"),
    "two kinds": ((Mechanism, Attack), {}, {}, {"name": "x"}, "extends Mechanism and Attack; a"),
    "traced and not": (
        (Mechanism, HostMechanism),
        {},
        {},
        {"name": "x"},
        "Mechanism and Host",
    ),
    "an annotated member": (
        (Attack,),
        {"gives": "score"},
        {"gives": str},
        {"name": "x"},
        "Made.gives is part of every attack, not a parameter: set it without an annotation",
    ),
    "a method's name": ((Mechanism,), {}, {"claim": float}, {"name": "x"}, "Made.claim is part of"),
    "a list": ((Mechanism,), {}, {"x": list[int]}, {"name": "x"}, "Made.x must be hashable: tuple"),
    "a default that would be ignored": (
        (Noise,),
        {"scale": 3.0},
        {},
        {"name": "x"},
        "Made.scale is an inherited parameter: to change it, repeat its annotation",
    ),
}


@pytest.mark.parametrize("case", MISLEADING)
def test_a_class_statement_that_would_mislead_its_author_is_refused(case):
    bases, body, annotations, options, message = MISLEADING[case]
    with pytest.raises(TypeError, match=message):
        define(bases, {"gives": "score", **body}, annotations, **options)


@pytest.mark.parametrize("gives", [None, "scores", True, ["score"]])
def test_an_attack_declares_what_it_gives(gives):
    body = {"score": noop} if gives is None else {"score": noop, "gives": gives}
    with pytest.raises(TypeError, match=r'an attack must declare .* gives = "decision" .* "score"'):
        type(Attack)("Made", (Attack,), body, name="made")


def noop(self, *args):
    """Stands for any method."""


INCOMPLETE = [
    (Mechanism, {}, "either sample.* or .*release.*, not neither"),
    (Mechanism, {"sample": noop, "release": noop}, "not both"),
    (HostMechanism, {}, "a host mechanism must define either sample.* or .*release.*, not neither"),
    (Attack, {}, "an attack must define score"),
    (Pair, {"d0": 0}, "a pair must define d1, adjacency"),
    (Estimator, {"certifies": True}, "an estimator must have assumption, statistic, estimate"),
]


@pytest.mark.parametrize(("base", "body", "message"), INCOMPLETE)
def test_what_a_kind_requires(base, body, message):
    with pytest.raises(TypeError, match=message):
        type(base)("Incomplete", (base,), body, name="incomplete")


def test_the_interface_version_is_that_of_the_class():
    class Future(Attack, name="future", api=2):
        gives = "score"

        def score(self, state, outputs):
            return outputs

    assert Future.api == 2


def test_a_function_becomes_a_mechanism():
    def coin(rng, data, n):
        """Ignores the data."""
        return rng.integers(0, 2, n)

    made = host_mechanism(coin, claim=PureDP(0.5), may_be_nan=True)
    assert (made.name, made.kind, made.__doc__) == ("coin", "mechanism", "Ignores the data.")
    assert made().claim(None) == PureDP(0.5)
    assert made().may_be_nan
    assert made().seedable
    assert not host_mechanism(coin, name="other", seedable=False)().seedable


def test_classes_with_the_same_fields_have_different_structures():
    """Else jit would run the program of one for the other; JAX's own dataclasses are equal here."""

    def make(number):
        class Same(Mechanism, name=f"same-{number}"):
            epsilon: float = 1.0

            def sample(self, key, data, n):
                return data * number

        return Same()

    plugins = [make(number) for number in range(10)]
    structures = [jax.tree.structure(plugin) for plugin in plugins]
    assert all(a != b for i, a in enumerate(structures) for b in structures[:i])
    run = jax.jit(lambda plugin, data: plugin.sample(None, data, 1))
    for number, plugin in enumerate(plugins):
        assert run(plugin, 1.0) == number


def test_every_builtin_has_a_structure_of_its_own():
    from dpframe.interfaces import registry

    built = [entry.cls for entry in registry.load().entries if entry.distribution == "dpframe"]
    given = [
        {
            row.name: 1.0
            for row in parameters(cls)
            if row.name == "epsilon" or row.default == "required"
        }
        for cls in built
    ]
    plugins = []
    for cls, values in zip(built, given, strict=True):
        with contextlib.suppress(ValidationError):  # files and tables have no example
            plugins.append(cls.from_params(values))
    assert len(plugins) >= len(built) - 5
    structures = [jax.tree.structure(plugin) for plugin in plugins]
    assert all(a != b for i, a in enumerate(structures) for b in structures[:i])


def test_names_for_authors_are_still_found_where_they_were():
    for name in dpframe.plugins.__all__:
        assert getattr(dpframe, name) is getattr(dpframe.plugins, name), name
    assert "Mechanism" not in dir(dpframe)
    with pytest.raises(AttributeError, match=r"'dpframe' has no attribute 'Mechanisms'"):
        dpframe.Mechanisms  # noqa: B018
    with pytest.raises(AttributeError, match=r"'dpframe.plugins' has no attribute 'audit'"):
        dpframe.plugins.audit  # noqa: B018
