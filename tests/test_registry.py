"""Finding plugins, of which some are broken."""

import importlib.metadata
import os
import sys
import types

import pytest

from dpframe import Attack, Mechanism, Pair, hookimpl
from dpframe.errors import PluginError
from dpframe.interfaces import registry
from dpframe.interfaces.registry import BUILTIN, Entry, Registry


def mechanism(name, **options):
    class Made(Mechanism, name=name, **options):
        def sample(self, key, data, n):
            return data

    return Made


def attack(name):
    class Made(Attack, name=name):
        gives = "score"

        def score(self, state, outputs):
            return outputs

    return Made


def module(**hooks):
    """A plugin module; each hook is what it returns, or a function."""
    made = types.ModuleType("plugin")
    for name, result in hooks.items():
        function = result if callable(result) else lambda result=result: result
        setattr(made, name, hookimpl(function))
    return made


class Point:
    """An entry point of a distribution that is not really installed."""

    def __init__(self, name, load, distribution, version="1.0"):
        self.name, self.value, self._load = name, f"{name}:plugin", load
        self.dist = types.SimpleNamespace(name=distribution, version=version)

    def load(self):
        return self._load() if callable(self._load) else self._load


@pytest.fixture
def load(monkeypatch):
    """Loads the registry with these entry points and nothing else installed."""
    monkeypatch.delenv("DPFRAME_NO_PLUGINS", raising=False)

    def load(*points, local=()):
        def entry_points(*, group):
            return points if group == "dpframe" else ()  # libraries have groups of their own

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
        return registry.load(local)

    return load


def good(name="good-one", distribution="good"):
    return Point(name, module(dpframe_mechanisms=[mechanism(name)]), distribution, "2.5")


def raises(error):
    def load():
        raise error

    return load


def test_third_parties_enter_with_their_provenance(load):
    entry = load(good()).find("mechanism", "good-one")
    assert (entry.distribution, entry.version, entry.kind) == ("good", "2.5", "mechanism")


BROKEN = {
    "import fails": (raises(ImportError("no numpy\nhere")), "ImportError: no numpy here"),
    "hook raises": (
        module(dpframe_attacks=raises(ZeroDivisionError("oh"))),
        "ZeroDivisionError: oh",
    ),
    "not a class": (module(dpframe_attacks=["guess"]), "returns 'guess', which is not a named"),
    "an instance": (module(dpframe_attacks=[attack("a")()]), "which is not a named subclass"),
    "an abstract base": (
        module(dpframe_attacks=[types.new_class("Shared", (Attack,))]),
        'Shared is a base class; to use it: class Shared(Attack, name="…")',
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_listed_and_the_others_go_on(name, load):
    loaded, message = BROKEN[name]
    found = load(good("a-good", "a"), Point("bad", loaded, "bad"), good("z-good", "z"))
    [broken] = found.broken
    assert (broken.distribution, broken.version) == ("bad", "1.0")
    assert broken.what.startswith("entry point 'bad'")
    assert message in broken.error
    assert "\n" not in broken.error
    assert found.find("mechanism", "a-good")
    assert found.find("mechanism", "z-good")


def test_a_broken_hook_leaves_the_other_hooks_of_the_plugin(load):
    mixed = module(dpframe_attacks=raises(ValueError("oh")), dpframe_mechanisms=[mechanism("fine")])
    found = load(Point("mixed", mixed, "mixed"))
    assert found.find("mechanism", "fine")
    assert [broken.what for broken in found.broken] == ["entry point 'mixed', dpframe_attacks"]


def test_ctrl_c_is_not_a_broken_plugin(load):
    with pytest.raises(KeyboardInterrupt):
        _ = load(Point("slow", raises(KeyboardInterrupt()), "slow")).entries


def test_no_plugins(load, monkeypatch):
    def names(value):
        found = load(good())
        monkeypatch.setenv("DPFRAME_NO_PLUGINS", value)
        found = registry.load()
        return {entry.name for entry in found.entries if entry.distribution != BUILTIN}

    assert names("1") == set()
    assert names("0") == {"good-one"}


def test_local_classes(load):
    found = load(local=[mechanism("mine"), attack("mine")])
    assert found.find("mechanism", "mine").distribution == "local"
    assert found.find("attack", "local/mine").version == "local"


def test_a_local_class_that_cannot_be_used_is_refused(load):
    with pytest.raises(PluginError, match="needs plugin interface 2"):
        load(local=[mechanism("future", api=2)])


def test_other_distributions_load_only_if_something_of_theirs_is_asked_for(load):
    loads = []
    point = Point("late", lambda: loads.append(1) or good().load(), "late")
    found = load(point, local=[mechanism("mine")])
    for name in ("laplace", "dpframe/laplace", "mine", "local/mine"):
        assert found.get("mechanism", name) is not None
    assert loads == []
    assert found.find("mechanism", "good-one").distribution == "late"
    assert found.find("mechanism", "late/good-one")
    assert found.broken == ()
    assert loads == [1]


def test_only_hooks_of_the_kind_are_called(load):
    def heavy():
        raise AssertionError

    mixed = module(dpframe_attacks=[attack("light")], dpframe_mechanisms=heavy)
    found = load(Point("mixed", mixed, "mixed"))
    assert found.find("attack", "light").distribution == "mixed"
    assert [one.what for one in found.broken] == ["entry point 'mixed', dpframe_mechanisms"]


def entry(kind, name, distribution):
    cls = mechanism(name) if kind == "mechanism" else attack(name)
    return Entry(kind, name, distribution, "1.0", cls)


def test_a_bare_name_means_the_builtin_or_the_only_one():
    builtin, one, other = (entry("mechanism", "laplace", d) for d in (BUILTIN, "one", "other"))
    assert Registry((builtin, one, other)).find("mechanism", "laplace") is builtin
    assert Registry((builtin, one, other)).find("mechanism", "other/laplace") is other
    assert Registry((one,)).find("mechanism", "laplace") is one
    with pytest.raises(PluginError) as caught:
        Registry((one, other)).find("mechanism", "laplace")
    assert str(caught.value) == (
        "mechanism 'laplace' is ambiguous; choose one of: one/laplace, other/laplace"
    )


def test_names_are_unique_per_kind():
    both = Registry((entry("mechanism", "x", "one"), entry("attack", "x", "one")))
    assert both.find("mechanism", "x").kind == "mechanism"
    assert both.find("attack", "x").kind == "attack"
    assert len(both.named("x")) == len(both.named("one/x")) == 2


def test_unknown_names_get_a_hint(load):
    broken = Point("bad", raises(ImportError("no")), "bad")
    found = load(broken, good())
    with pytest.raises(PluginError) as caught:
        found.find("mechanism", "good-on")
    text = str(caught.value)
    assert text.startswith("unknown mechanism 'good-on'\n")
    assert "did you mean 'good-one'?" in text
    assert "may belong to a plugin that failed to load (bad); see `dpframe plugins`" in text
    with pytest.raises(PluginError, match="'good-one' is the name of a mechanism"):
        found.find("attack", "good-one")
    with pytest.raises(PluginError) as caught:
        found.find("mechanism", "elsewhere/x")
    assert "failed to load" not in str(caught.value)
    for name in ("bad/x", "bad"):
        with pytest.raises(PluginError) as caught:
            found.find("mechanism", name)
        assert "\n   bad 1.0 could not be loaded: ImportError: no" in str(caught.value)
        assert "may belong" not in str(caught.value)


def test_of_kind():
    found = Registry((entry("mechanism", "a", "one"), entry("attack", "b", "one")))
    assert [one.name for one in found.of_kind("attack")] == ["b"]


def test_builtins_come_by_the_same_hooks(load):
    found = load()
    assert found.broken == ()
    assert {entry.distribution for entry in found.entries} == {BUILTIN}
    assert found.of_kind("pair"), "there is at least one pair"
    assert all(issubclass(entry.cls, Pair) for entry in found.of_kind("pair"))


def test_a_signal_while_plugins_load_is_not_their_mistake(monkeypatch):
    from dpframe.cli import Terminated

    def interrupted(_):
        raise Terminated

    monkeypatch.setattr("importlib.import_module", interrupted)
    with pytest.raises(Terminated):
        registry.load()


def test_a_package_without_an_entry_point_gets_a_hint(load, monkeypatch):
    """A key of the plugin's own name, installed or not; a nearly known name is a typo."""
    installed = {"noisy-sum": [], "with-point": [("dpframe", "x")]}

    class Points(list):
        def select(self, *, group):
            return [point for point in self if point[0] == group]

    def distribution(name):
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return types.SimpleNamespace(entry_points=Points(installed[name]))

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    found = load(good())

    def hint(use):
        return found.hints("mechanism", use)

    point = "[project.entry-points.dpframe]"
    for use in ("noisy-sum", "noisy-sum/anything"):
        assert "'noisy-sum' is installed but has no entry point for dpframe" in hint(use)
        assert point in hint(use)
    assert "entry" not in hint("with-point")
    assert f"must declare it in its pyproject.toml: {point}" in hint("nowhere")
    assert "entry" not in hint("good-on")


def test_plugins_that_are_installed_later_are_found(tmp_path, monkeypatch):
    """As in a notebook: `pip install`; without a module they are listed as broken."""
    monkeypatch.delenv("DPFRAME_NO_PLUGINS", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for number, name in enumerate(("one", "two"), 1):
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[dpframe]\n{name} = {name}\n")
        os.utime(tmp_path, ns=(0, number * 10**9))  # else both may look like one change
        found = [(one.distribution, one.version) for one in registry.load().broken]
        assert found == [("one", "1"), ("two", "1")][:number]


def test_the_pair_of_a_record_is_made_again():
    from dpframe.plugins import find_plugin

    pair = find_plugin("pair", "zeros-ones").from_params({"dim": 2})
    assert [side.tolist() for side in (pair.d0, pair.d1)] == [[0.0, 0.0], [1.0, 1.0]]
    with pytest.raises(PluginError, match="unknown pair 'nowhere'"):
        find_plugin("pair", "nowhere")
