"""Packages that `dpframe new` writes work as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tomli
from support.command_line import dpframe
from support.processes import DPFRAME, run

from dpframe.commands.check import new
from dpframe.errors import DpframeError
from dpframe.interfaces.registry import KINDS


def offered(folder: Path, name: str) -> str:
    """A PYTHONPATH on which the distribution is found as an installed one is."""
    point = tomli.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
    meta = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [f"{key} = {value}" for key, value in point["dpframe"].items()]
    (meta / "entry_points.txt").write_text("\n".join(["[dpframe]", *lines, ""]))
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass_and_its_audit_meets_its_expectations(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "made-here"
    files = new(kind, "made-here", folder)
    assert [file.name for file in files] == [
        *("made_here.py", "test_made_here.py", "made-here.toml", "pyproject.toml", "README.md")
    ]
    found = {"PYTHONPATH": offered(folder, "made-here"), "DPFRAME_NO_PLUGINS": "0"}
    words = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
    tests = run(*words, cwd=folder, **found)
    assert tests.returncode == 0, tests.stdout
    assert "2 passed" in tests.stdout
    listed = run(*DPFRAME, "plugins", "made-here", cwd=folder, **found)
    assert f"made-here · {kind} · made-here 0.1.0" in listed.stdout


FIT = """    def fit(self, key, target, train):
        before, after = (np.median(outputs.reshape(len(outputs), -1)[:, 0]) for outputs in train)
        return {"sign": np.sign(after - before)}

"""
SCORE = """        first = outputs.reshape(len(outputs), -1)[:, 0]
        return state["sign"] * jnp.asarray(first, jnp.result_type(float))
"""
OF_INDICES = """    def fit(self, key, target, train):
        zero, one = (np.bincount(outputs.ravel(), minlength=9) + 1 for outputs in train)
        return {"ratios": np.log(one / zero)}

"""
DRAW = "return data.sum() + jax.random.laplace(key"
SAMPLE = f"def sample(self, key, data, n):\n        {DRAW}, (n, 1))"
RELEASE = f"def release(self, key, data):\n        {DRAW})"
PROPOSED = "        return [Values("

EDITS = {
    "mechanism": (
        ("jax.random.laplace(", "data.size * jax.random.laplace("),
        ("return data.sum() + jax.", "return jax.numpy.round(data.sum()) + jax."),
        ("    epsilon:", '    scale: float = 1.0\n    """Of noise."""\n    epsilon:'),
        (SAMPLE, RELEASE),
    ),
    "attack": (
        (FIT, OF_INDICES, SCORE, '        return state["ratios"][outputs.ravel()]\n'),
        ('gives = "score"', 'gives = "decision"', 'return state["sign"] *', "return 1 < 2 *"),
        (FIT, "", 'state["sign"] * ', ""),
        ("    gives", '    power: float\n    """Of it."""\n    gives', '"made-3"\n\n[[est',
         '"made-3"\nparams.power = 1.0\n\n[[est'),
    ),
    "estimator": (
        ("error / 2)", "np.array([0.9, 0.1]) * error)"),
        ("certifies = True", "certifies = False"),
        ("return estimate_from_boxes(boxes, query, epsilon=epsilon)",
         "return estimate_from_boxes(boxes, query, epsilon=0.0)"),
        ("    certifies", '    share: float = 0.5\n    """Of the error."""\n    certifies',
         "error / 2)", "error * self.share)"),
    ),
    "pair": (
        ("np.float32)[0]", "np.float32)[0] * 2"),
        ("np.zeros(self.dim, np.float32)", '[{"age": 2}] * self.dim',
         "np.eye(1, self.dim, dtype=np.float32)[0]", '[{"age": 3}] * self.dim'),
        ("np.float32)[0]", "np.float32)[0].astype(int)",
         "np.zeros(self.dim, np.float32)", "np.zeros(self.dim, int)"),
        ("np.zeros(self.dim, np.float32)", "np.zeros(self.dim - 1, np.float32)"),
    ),
    "neighbourhood": (
        ("before[0], after[0] = 0, 1", "before[0], after[0] = 0, 3"),
        (PROPOSED, f"{PROPOSED}d0=before, d1=after + 1, adjacency='any'), Values("),
        ("else np.zeros(self.records)", "else np.ones(self.records)"),
        ("    records: ", '    batch: int = 1\n    """Pairs at a time."""\n    records: '),
    ),
}  # fmt: skip
"""Edits of a class that keep the promises of its kind: texts and what replaces them."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass_after_edits_that_keep_its_promises(kind: str, tmp_path: Path) -> None:
    folders, paths = [], []
    for number, edit in enumerate(EDITS[kind]):
        folder = tmp_path / f"made-{number}"
        module, _, spec, *_ = new(kind, f"made-{number}", folder)
        for text, other in zip(edit[::2], edit[1::2], strict=True):
            file = spec if text.endswith("[[est") else module
            assert text in file.read_text(), text
            file.write_text(file.read_text().replace(text, other))
        folders.append(folder)
        paths.append(offered(folder, f"made-{number}"))
    words = ("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-rs")
    found = {"PYTHONPATH": os.pathsep.join(paths), "DPFRAME_NO_PLUGINS": "0"}
    tests = run(*words, "--import-mode=importlib", *folders, cwd=tmp_path, **found)
    assert tests.returncode == 0, tests.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_writes_is_python_and_toml(kind: str, tmp_path: Path) -> None:
    """Slow tests run it."""
    for file in new(kind, "made-here", tmp_path / "out"):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".py":
            compile(text, file.name, "exec")
        elif file.suffix == ".toml":
            assert tomli.loads(text)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DpframeError, match="nothing is overwritten"):
        new("pair", "made-here", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("mechanisms", "made-here", "did you mean 'mechanism'"),
        ("pair", "Made-Here", "lower-case letters"),
        ("pair", "made_here", "lower-case letters"),
        ("pair", "../made", "lower-case letters"),
        ("pair", "lambda", "Python has something"),
        ("pair", "json", "Python has something"),
        ("mechanism", "laplace", "in a spec, this name means the built-in mechanism laplace"),
        ("pair", "numpy", "a module called numpy already"),
        ("pair", "dp-accounting", "a module called dp_accounting already"),
    ],
)
def test_names_that_will_not_do(kind: str, name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(DpframeError, match=says):
        new(kind, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_class_does_not_take_the_name_of_its_base(tmp_path: Path) -> None:
    new("mechanism", "mechanism", tmp_path / "out")
    source = (tmp_path / "out" / "mechanism.py").read_text()
    assert 'class MechanismMechanism(Mechanism, name="mechanism"):' in source


def test_the_command_says_what_to_do_next(tmp_path: Path) -> None:
    done = dpframe("new", "attack", "made-here", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cd made-here\n  pip install -e '.[test]'" in done.stdout
    again = dpframe("new", "attack", "made-here", cwd=tmp_path)
    assert again.returncode == 2
    assert "nothing is overwritten" in again.stderr
