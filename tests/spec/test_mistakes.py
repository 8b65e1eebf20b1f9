"""One test per kind of mistake, each with the whole message a user reads."""

import pytest
import tomli

from dpframe.errors import SpecError
from dpframe.spec.document import Document
from dpframe.spec.model import MechanismTable
from dpframe.spec.tables import read_sections

KEYS = list(MechanismTable.model_fields)
"""The keys of a mechanism's table; the first three are those of any plugin."""

ALL_WRONG = """\
schema = 1

[audit]
name = "small"
trials = 0
sed = 3

[pair]
use = "line"
params.dim = 0

[[mechanism]]
use = "plan"

[[mechanism]]
use = "rich"
params = { epsilom = 1.0, mode = "zer" }

[[attack]]
use = "guess"

[[estimator]]
use = "rate"

[sweep]
"attack.threshold" = [
  0.5,
  1.5,
]

[[expect]]
where = { attack = "gues" }
verdict = "broken"

[rum]
chunk = 1
"""


def test_all_mistakes_at_once(mistakes):
    assert "\n".join(mistakes(ALL_WRONG)) == (
        """\
spec.toml:5: audit.trials: should be greater than or equal to 1, got 0
    5 | trials = 0
spec.toml:6: audit.sed: unknown key
    6 | sed = 3
   accepts: name, seed, trials, delta, confidence, multiplicity, repeats; did you mean 'seed'?
spec.toml:10: pair.params.dim: should be greater than or equal to 1, got 0
   10 | params.dim = 0
spec.toml:13: mechanism[0].use: unknown mechanism 'plan'
   13 | use = "plan"
   {known}: fussy, plain, rich; did you mean 'plain'?
spec.toml:17: mechanism[1].params.mode: "zer" is not accepted
   17 | params = { epsilom = 1.0, mode = "zer" }
   accepts: zero, keep; did you mean 'zero'?
spec.toml:17: mechanism[1].params.epsilom: unknown parameter of mechanism 'rich'
   17 | params = { epsilom = 1.0, mode = "zer" }
   accepts: epsilon, sensitivity, mode, shape, size; did you mean 'epsilon'?
spec.toml:28: sweep."attack.threshold"[1]: should be less than or equal to 1, got 1.5
   28 |   1.5,
spec.toml:32: expect[0].where.attack: no attack is called "gues"
   32 | where = { attack = "gues" }
   accepts: guess; did you mean 'guess'?
spec.toml:33: expect[0].verdict: "broken" is not accepted
   33 | verdict = "broken"
   accepts: violated, consistent, inconclusive
spec.toml:35: rum: unknown key
   35 | [rum]
   accepts: schema, audit, pair, search, mechanism, attack, estimator, sweep, expect, \
environments, run; did you mean 'run'?"""
    ).replace("{known}", "known")


# Replacements in the base spec, and the message that follows.
ONE_WRONG = {
    "schema of another version": (
        ("schema = 1", "schema = 2"),
        "spec.toml:1: schema: should be 1, got 2\n    1 | schema = 2",
    ),
    "schema true": (("schema = 1", "schema = true"), "spec.toml:1: schema: should be 1, got true"),
    "no trials": (
        ("trials = 1000\n", ""),
        "spec.toml:3: audit: key 'trials' is missing\n    3 | [audit]\n"
        "   give it here or with --trials",
    ),
    "trials as text": (
        ("1000", '"1000"'),
        'spec.toml:5: audit.trials: should be an integer, got "1000"',
    ),
    "trials as a round float": (
        ("1000", "1e6"),
        "spec.toml:5: audit.trials: should be an integer, got 1000000.0\n    5 | trials = 1e6\n"
        "   write 1_000_000",
    ),
    "parameter beside params": (
        ("params.epsilon = 1.0", "epsilon = 1.5"),
        "spec.toml:12: mechanism[0].epsilon: unknown key\n   12 | epsilon = 1.5\n   accepts: "
        f"{', '.join(KEYS)}\n   a parameter of mechanism 'plain': write params.epsilon = 1.5",
    ),
    "parameter of the pair beside params": (
        ('use = "line"', 'use = "line"\ndim = 2'),
        "spec.toml:9: pair.dim: unknown key\n    9 | dim = 2\n   accepts: use, params\n"
        "   a parameter of pair 'line': write params.dim = 2",
    ),
    "trials beyond exact counts": (
        ("1000", "9007199254740993"),
        "spec.toml:5: audit.trials: should be less than or equal to 9007199254740992, got 9007",
    ),
    "misspelt trials": (
        ("trials", "trails"),
        "spec.toml:5: audit.trails: unknown key\n    5 | trails = 1000\n   accepts: name, seed, "
        "trials, delta, confidence, multiplicity, repeats; did you mean 'trials'?",
    ),
    "name that is a path": (
        ('"small"', '"../small"'),
        "spec.toml:4: audit.name: should be letters, digits, blanks and the characters . + - _, "
        'got "../small"',
    ),
    "confidence 1": (
        ("trials = 1000", "trials = 1000\nconfidence = 1"),
        "spec.toml:6: audit.confidence: should be less than 1, got 1",
    ),
    "confidence nan": (
        ("trials = 1000", "trials = 1000\nconfidence = nan"),
        "spec.toml:6: audit.confidence: should be finite, got NaN",
    ),
    "multiplicity": (
        ("trials = 1000", 'trials = 1000\nmultiplicity = "hom"'),
        'spec.toml:6: audit.multiplicity: "hom" is not accepted\n    6 | multiplicity = "hom"\n'
        "   accepts: holm, bonferroni, none; did you mean 'holm'?",
    ),
    "one table for a list": (
        ("[[attack]]", "[attack]"),
        "spec.toml:14: attack: is a single table; it should be a list\n   14 | [attack]\n"
        "   write [[attack]]",
    ),
    "list for a table": (("[pair]", "[[pair]]"), "spec.toml:7: pair: should be a table, got [{"),
    "no use": (
        ('use = "guess"', ""),
        "spec.toml:14: attack[0]: key 'use' is missing\n   14 | [[attack]]",
    ),
    "parameter missing": (
        ("params.epsilon = 1.0", ""),
        "spec.toml:10: mechanism[0].params: parameter 'epsilon' of mechanism 'plain' is missing",
    ),
    "parameter as text": (
        ("= 1.0", '= "1.0"'),
        'spec.toml:12: mechanism[0].params.epsilon: should be a number, got "1.0"\n'
        '   12 | params.epsilon = "1.0"',
    ),
    "parameter out of range": (
        ("= 1.0", "= 0"),
        "spec.toml:12: mechanism[0].params.epsilon: should be greater than 0, got 0",
    ),
    "parameter infinite": (
        ("= 1.0", "= inf"),
        "spec.toml:12: mechanism[0].params.epsilon: should be finite, got Infinity",
    ),
    "unknown parameter": (
        ("params.epsilon = 1.0", "params.epsilon = 1.0\nparams.dim = 1"),
        "spec.toml:13: mechanism[0].params.dim: unknown parameter of mechanism 'plain'\n"
        "   13 | params.dim = 1\n   accepts: epsilon",
    ),
    "value of a class without an annotation": (
        ('"plain"\nparams.epsilon = 1.0', '"rich"\nparams = { epsilon = 1.0, rounds = 2 }'),
        "spec.toml:12: mechanism[0].params.rounds: unknown parameter of mechanism 'rich'\n"
        "   12 | params = { epsilon = 1.0, rounds = 2 }\n"
        "   Rich sets it without an annotation; for a parameter write rounds: int = 3",
    ),
    "element of a list": (
        ('"plain"', '"rich"\nparams.shape = [\n1,\n"2"]'),
        'spec.toml:14: mechanism[0].params.shape[1]: should be an integer, got "2"\n   14 | "2"]',
    ),
    "neither of two types": (
        ('"plain"', '"rich"\nparams.size = 1.5'),
        "spec.toml:12: mechanism[0].params.size: should be an integer, got 1.5, or should be a "
        "string, got 1.5",
    ),
    "check of the plugin": (
        ('"plain"\nparams.epsilon = 1.0', '"rich"\nparams = { epsilon = 101, mode = "keep" }'),
        "spec.toml:10: mechanism[0]: parameters of mechanism 'rich': mode 'keep' needs epsilon of "
        "at most 100\n   10 | [[mechanism]]",
    ),
    "resolve refuses": (
        (
            '"line"\n\n[[mechanism]]\nuse = "plain"\nparams.epsilon = 1.0',
            '"line"\nparams.dim = 2\n[[mechanism]]\nuse = "fussy"\nparams.how = "refuses"',
        ),
        "spec.toml:10: mechanism[0]: mechanism 'fussy' does not fit pair 'line': needs dim = 1"
        '\n   10 | [[mechanism]]\n   with how = "refuses", pair.dim = 2',
    ),
    "resolve crashes": (
        ('"plain"\nparams.epsilon = 1.0', '"fussy"\nparams.how = "crashes"'),
        "spec.toml:10: mechanism[0]: mechanism 'fussy' does not fit pair 'line': KeyError: 'lost'",
    ),
    "resolve gives something else": (
        ('"plain"\nparams.epsilon = 1.0', '"fussy"\nparams.how = "resolves to text"'),
        "spec.toml:10: mechanism[0]: mechanism 'fussy' does not fit pair 'line': "
        "TypeError: resolve returned 'not a mechanism', which is not the mechanism",
    ),
    "claim gives something else": (
        ('"plain"\nparams.epsilon = 1.0', '"fussy"\nparams.how = "claims text"'),
        "spec.toml:10: mechanism[0]: mechanism 'fussy' does not fit pair 'line': "
        "TypeError: claim returned 'private', which is neither a claim nor None",
    ),
    "a plugin of another kind": (
        ('use = "guess"', 'use = "plain"'),
        "spec.toml:15: attack[0].use: unknown attack 'plain'\n   15 | use = \"plain\"\n"
        "   known: guess, look\n   'plain' is the name of a mechanism",
    ),
    "second entry without a label": (
        ("[[attack]]", '[[attack]]\nuse = "guess"\n[[attack]]'),
        "spec.toml:17: attack[1].use: is called 'guess', and so is attack[0]; give it its own "
        'label\n   17 | use = "guess"\n   for example: label = "…"',
    ),
    "label given twice": (
        ("[[attack]]", '[[attack]]\nuse = "look"\nlabel = "π"\n[[attack]]\nlabel = "π"'),
        "spec.toml:18: attack[1].label: label 'π' is already used by attack[0]\n"
        '   18 | label = "π"',
    ),
    "label of two lines": (
        ('use = "guess"', 'use = "guess"\nlabel = "a\\nb"'),
        "spec.toml:16: attack[0].label: should be one line of printable text without blanks "
        'around it, got "a\\nb"',
    ),
    "chunk": (
        ('use = "rate"', 'use = "rate"\n[run]\nchunk = 1000'),
        "spec.toml:20: run.chunk: should be a power of two, got 1000",
    ),
}


@pytest.mark.parametrize("name", ONE_WRONG)
def test_one_mistake_gives_one_message(name, base, mistakes):
    (old, new), message = ONE_WRONG[name]
    assert old in base
    found = mistakes(base.replace(old, new, 1))
    assert len(found) == 1, found
    assert found[0].startswith(message)


@pytest.mark.parametrize("kind", ["mechanism", "attack", "estimator"])
def test_a_misspelt_use_is_one_mistake(kind, base, mistakes):
    head, tail = base.split(f"[[{kind}]]\n")
    [message] = mistakes(head + f"[[{kind}]]\n" + tail.replace("use", "ue", 1))
    assert f"{kind}[0].ue: unknown key" in message
    keys = KEYS if kind == "mechanism" else KEYS[:3]
    assert message.endswith(f"accepts: {', '.join(keys)}; did you mean 'use'?")


def test_the_first_fifty_mistakes_and_the_number_of_the_rest(base, load):
    values = ", ".join(f'"{n}"' for n in range(1_000))
    with pytest.raises(SpecError) as caught:
        load(base + f"[sweep]\nmechanism.epsilon = [\n{values}]")
    assert (len(caught.value.problems), caught.value.number) == (50, 1_000)
    assert "sweep.mechanism.epsilon[49]: should be a number" in caught.value.problems[-1]
    assert str(caught.value).endswith("\n… and 950 more mistakes")


def test_long_names_are_cut(base, mistakes):
    long = "x" * 100_000
    for text in (f'use = "{long}"', f"{long} = 1", f'use = "plain"\nparams = {{ "{long}" = 1 }}'):
        assert max(map(len, mistakes(base.replace('use = "plain"', text)))) < 1000
    found = mistakes(base, overrides=[f"mechanism.{long}=1", f"{long}=1", f"audit.{long}=1", long])
    assert max(map(len, found)) < 1000


def test_messages_hold_no_control_characters(base, mistakes):
    evil = "\x1b]0;x\x07\x9b31m\u202e\u2028"
    escaped = evil.encode("unicode_escape").decode().replace("\\x", "\\u00")
    for text in (f'use = "{escaped}"', f'"{escaped}" = 1', f'use = "plain"\nlabel = "{escaped}"'):
        for message in mistakes(base.replace('use = "plain"', text)):
            assert message.replace("\n", "").isprintable()
    for option in (f"mechanism.{evil}=1", f"{evil}=1", f"audit.name={evil}", evil):
        [message] = mistakes(base, overrides=[option])
        assert message.replace("\n", "").isprintable()


def test_long_lines_are_cut(base, mistakes):
    values = ", ".join(["0.5"] * 100)
    [message] = set(mistakes(base + f"[sweep]\nmechanism.epsilom = [{values}]"))
    quoted = message.split("\n")[1]
    assert len(quoted) <= 110
    assert quoted.endswith("…")


def test_a_mistake_made_by_every_combination_is_told_once(base, mistakes):
    text = base.replace('"plain"', '"rich"\nparams.mode = "keep"')
    found = mistakes(text + '[sweep]\n"mechanism.epsilon" = [1, 101, 102]\npair.dim = [1, 2, 3]')
    assert len(found) == 1
    assert found[0].endswith('with mode = "keep", epsilon = 101')


class Counted(dict):
    """Counts how often all of it is looked at."""

    looked = 0

    def items(self):
        type(self).looked += 1
        return super().items()


def test_a_table_of_unknown_keys_is_not_gone_through_for_each_of_them(registry, base):
    spec = tomli.loads(base)
    spec["mechanism"][0] = Counted(spec["mechanism"][0], **{f"key{n}": n for n in range(1000)})
    document = Document("", "", "", spec)
    read_sections(document, registry)
    assert document.mistakes
    assert Counted.looked < 100
