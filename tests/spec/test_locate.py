"""The line of a key, in every syntax that TOML has."""

import pytest
import tomli
from hypothesis import given, strategies as st

from dpframe.spec.document import Locator, holds

DOCUMENT = '''\
# a comment with [[mechanism]] and a = 1 in it
schema = 1

audit.name = "π"   # dotted
"quoted key" = 'x = [ "'

[pair]
use = "line"
params.dim = 1

[[mechanism]]
use = "a"
params = { epsilon = 1.0, deep = { er = [1, 2] } }

[[mechanism]]
use = "b"
[mechanism.params]
epsilon = 2.0
text = """
[pair]
use = "no"
"""

  [sweep]
"mechanism.epsilon" = [
    0.1,  # first
    0.2, 0.3,

    0.4,
]
pair.dim = [
    [1, 2],
    [
        3,
    ],
]

[[expect]]
where = { mechanism = "a", "pair.dim" = [1,
    2] }
verdict = "violated"
'''
LINES = [
    (("schema",), 2),
    (("audit",), 4),
    (("audit", "name"), 4),
    (("quoted key",), 5),
    (("pair",), 7),
    (("pair", "use"), 8),
    (("pair", "params", "dim"), 9),
    (("mechanism",), 11),
    (("mechanism", 0), 11),
    (("mechanism", 0, "use"), 12),
    (("mechanism", 0, "params", "epsilon"), 13),
    (("mechanism", 0, "params", "deep", "er", 1), 13),
    (("mechanism", 1), 15),
    (("mechanism", 1, "use"), 16),
    (("mechanism", 1, "params"), 17),
    (("mechanism", 1, "params", "epsilon"), 18),
    (("mechanism", 1, "params", "text"), 19),
    (("sweep",), 24),
    (("sweep", "mechanism.epsilon"), 25),
    (("sweep", "mechanism.epsilon", 0), 26),
    (("sweep", "mechanism.epsilon", 1), 27),
    (("sweep", "mechanism.epsilon", 2), 27),
    (("sweep", "mechanism.epsilon", 3), 29),
    (("sweep", "pair", "dim", 0, 1), 32),
    (("sweep", "pair", "dim", 1), 33),
    (("sweep", "pair", "dim", 1, 0), 34),
    (("expect", 0, "where", "pair.dim", 0), 39),
    (("expect", 0, "where", "pair.dim", 1), 40),
    (("expect", 0, "verdict"), 41),
    (("nothing",), None),
    (("mechanism", 2), None),
    (("mechanism", -1), None),
    (("schema", "deeper"), None),
]


@pytest.mark.parametrize(("path", "line"), LINES, ids=str)
def test_every_syntax(path, line):
    assert Locator(DOCUMENT).line(path) == line


# What a key `k` and its value may look like, each on lines of its own; {k} stands for the key.
STATEMENTS = st.sampled_from(
    [
        "{k} = 1",
        '"{k}" = "a # b"',
        "{k}.x.y = 2  # comment",
        "{k} = {{ x = [1, 2] }}",
        "[{k}]",
        "[{k}.x]\ny = 1",
        "[[{k}]]\nx = 1\n[[{k}]]",
        '{k} = """\n[no]\nk0 = 1\n"""',
        "{k} = '''\n\n= ]'''",
        "{k} = [\n  1,\n\n  # ]\n  [2,\n 3],\n]",
    ]
)
FILLING = st.sampled_from(["", "# [[k0]]", "   ", "\t# = '''"])


@given(st.lists(st.tuples(FILLING, STATEMENTS), max_size=12), st.data())
def test_a_key_is_on_the_line_where_its_statement_begins(statements, data):
    # Tables swallow the keys after them, so all keys without a table come first.
    statements.sort(key=lambda pair: pair[1].startswith("["))
    lines, expected = [], {}
    for number, (filling, statement) in enumerate(statements):
        lines.append(filling)
        expected[f"k{number}"] = len(lines) + 1
        lines += statement.format(k=f"k{number}").split("\n")
    text = "\n".join(lines)
    assert {key: Locator(text).line((key,)) for key in expected} == expected
    if expected:
        key = data.draw(st.sampled_from(sorted(expected)))
        for path in paths(tomli.loads(text)[key], (key,)):
            line = Locator(text).line(path)
            assert expected[key] <= line
            assert text.split("\n")[line - 1].strip()


def paths(value, path):
    yield path
    steps = dict(enumerate(value)) if isinstance(value, list) else value
    for step, inner in steps.items() if isinstance(steps, dict) else ():
        yield from paths(inner, (*path, step))


def test_holds_takes_lists_by_position_and_tables_by_key():
    assert holds({"a": [{"b": 1}]}, ("a", 0, "b"))
    assert not holds({"a": [1]}, ("a", "0"))
    assert not holds({"0": 1}, (0,))


def test_a_few_hundred_lines():
    text = "".join(f"[[mechanism]]\nuse = 'a'\nparams.x = [\n{i},\n]\n" for i in range(100))
    locator = Locator(text)
    assert locator.line(("mechanism", 99, "params", "x", 0)) == 499
    assert locator.line(("mechanism", 3, "params", "x", 0)) == 19


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('a = """x"\n""""" # "\nb = 1', ("b",), 3),
        ("a = '''x'\n''''' # '\nb = 1", ("b",), 3),
        ('a = "\\\\"\nb = 1', ("b",), 2),
        ('a = """\\\\\\""" # \n"""\nb = 1', ("b",), 3),
        ('"a\\u0062" = 1\n"\\"" = 2', ('"',), 2),
        ('"a\\u0062" = 1', ("ab",), 1),
        ("'a.b' . \"c\" = 1\nd = 1979-05-27 07:32:00 # x\ne = 1", ("e",), 3),
        ("'a.b' . \"c\" = 1", ("a.b", "c"), 1),
        ("a = [{b = 1}, # ]\n {b = [2]} ]\n[c]\n[ d . e ]", ("a", 1, "b", 0), 2),
        ("a = {b.c = 1,\n d = 2}", ("a", "d"), 2),
        ("[a.b]\n[a]\nc = 1\n[a.d]", ("a", "c"), 3),
        ("[[a]]\n[[a.b]]\n[a.b.c]\nx = 1\n[[a.b]]\n[a.b.c]\nx = 1", ("a", 0, "b", 1, "c", "x"), 7),
        ("\n\n", ("a",), None),
    ],
)
def test_every_trick(text, path, line):
    assert Locator(text).line(path) == line


def test_specs_and_documents_that_a_reader_knows(root):
    for file in sorted(root.glob("**/*.toml")):
        text = file.read_text(encoding="utf-8")
        locator = Locator(text)
        lines = [locator.line((key,)) for key in tomli.loads(text)]
        assert lines == sorted(lines)
        assert None not in lines


def test_no_line_rather_than_a_wrong_one(monkeypatch):
    found = tomli.loads(DOCUMENT)
    found["pair"]["more"] = 1
    monkeypatch.setattr(tomli, "loads", lambda text: found)
    assert Locator(DOCUMENT).line(("schema",)) is None


def test_the_text_is_read_once_however_many_lines_are_asked_for(monkeypatch):
    read, loads = [], tomli.loads
    monkeypatch.setattr(tomli, "loads", lambda text: read.append(text) or loads(text))
    locator = Locator("a = [\n" + "1,\n" * 3000 + "]")
    assert [locator.line(("a", at)) for at in range(3000)] == list(range(2, 3002))
    assert len(read) == 2  # it, and its copy that has line numbers in place of values
