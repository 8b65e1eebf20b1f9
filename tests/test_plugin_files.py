"""`--plugin FILE.py`: a local file for one run, in this process and in the workers."""

from __future__ import annotations

import gc
import json
import sys
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.command_line import dpframe
from support.tiers import mostly_slow

from dpframe.commands.audit import load_plugins
from dpframe.count.fingerprint import code_digest
from dpframe.errors import PluginError
from dpframe.interfaces import plugin_files, registry


@pytest.fixture(autouse=True)
def _no_file_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files of one test are not those of the next, nor of the workers that it starts."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    plugin_files._given.clear()


SPEC = """
schema = 1
[audit]
name = "own"
trials = 2000
[pair]
use = "zeros-ones"
[[mechanism]]
use = "{use}"
params.epsilon = 1.0
[[attack]]
use = "identity"
[[estimator]]
use = "order-statistics"
"""

BOX = '''
import functools
import beside_of_{name}
from dpframe import HostMechanism, PureDP

@functools.lru_cache
def scale(epsilon):          # such a function cannot be handed over as code
    return 1 / epsilon

class Own(HostMechanism, name="own-box"):
    """A box of one's own."""

    epsilon: float

    def claim(self, pair):
        return PureDP(self.epsilon)

    def sample(self, rng, data, n):
        return data.sum() + beside_of_{name}.noise(rng, scale(self.epsilon), n)
'''

BESIDE = "def noise(rng, scale, n):\n    return rng.laplace(0, scale, n)\n"


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.slow
def test_a_box_of_a_file_is_audited(tmp_path: Path) -> None:
    written(tmp_path, "boxes.py", BOX.format(name="boxes"))
    written(tmp_path, "beside_of_boxes.py", BESIDE)
    written(tmp_path, "spec.toml", SPEC.format(use="own-box"))
    words = ("run", "spec.toml", "--plugin", "boxes.py", "--json", "--quiet")
    done = dpframe(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads(done.stdout)
    (cell,) = record["cells"]
    assert (cell["status"], cell["verdict"]) == ("ok", "consistent")
    (row,) = [plugin for plugin in record["plugins"] if plugin["kind"] == "mechanism"]
    assert (row["name"], row["distribution"]) == ("own-box", "boxes.py")
    assert str(tmp_path) not in done.stdout
    digests = row["version"], row["code"]
    again = dpframe(*words, cwd=tmp_path)
    assert again.stdout == done.stdout  # complete and identical: not repeated

    # Files beside it are its code too: a record of other code is none of this one's.
    written(tmp_path, "beside_of_boxes.py", BESIDE.replace("0, scale", "0, 2 * scale"))
    for name in ("dpframe_file_boxes", "beside_of_boxes"):
        sys.modules.pop(name)  # as a new process would
    (new,) = registry.load(files=[tmp_path / "boxes.py"]).named("own-box")
    assert new.version == digests[0]
    assert code_digest(new.cls) != digests[1]


def test_a_class_of_a_script_has_one_digest_on_all_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "script.py"
    file.write_text(f"class Own: pass\nx = {'+'.join('1' * 150)}")
    module = types.ModuleType("__main__")
    module.__file__ = str(file)
    exec(file.read_text(), module.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", module)
    often, garbage = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5, 1000, 1000)  # JAX runs Python code on a collection: threads switch there
    try:
        with ThreadPoolExecutor(6) as pool:
            found = list(pool.map(code_digest, [module.Own] * 300))
    finally:
        sys.setswitchinterval(often)
        gc.set_threshold(*garbage)
    assert len(set(found)) == 1


def test_a_program_is_read_and_not_run(tmp_path: Path) -> None:
    text = "import no_such_package\n\ndef prepare(params, data):\n    pass\n"
    file = written(tmp_path, "a_program.py", text)
    known = load_plugins([str(file)])
    assert "a_program.py" in known.files
    assert not [e for e in known.entries if e.distribution == "a_program.py"]
    done = dpframe("check", "--plugin", "a_program.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "a_program.py is a program" in done.stderr


def test_a_spec_alone_runs_no_code(tmp_path: Path) -> None:
    written(tmp_path, "spec.toml", SPEC.format(use="own-box"))
    done = dpframe("run", "spec.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown mechanism 'own-box'" in done.stderr


@pytest.mark.parametrize("command", mostly_slow(["check", "plan", "compare"], ("plan",)))
def test_other_commands_take_files(command: str, tmp_path: Path) -> None:
    text = BOX.format(name=command).replace("HostMechanism", "Mechanism").replace("_of_", "_")
    text = text.replace(f"import beside_{command}\n", "import jax\n")
    text = text.replace("rng, data, n", "key, data, n")
    text = text.replace(
        f"data.sum() + beside_{command}.noise(rng, scale(self.epsilon), n)",
        "data.sum() + jax.random.laplace(key, (n,)) / self.epsilon",
    )
    written(tmp_path, f"{command}.py", text)
    written(tmp_path, "spec.toml", SPEC.format(use="own-box"))
    done = dpframe(command, "spec.toml", "--plugin", f"{command}.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_check_tries_out_what_a_file_brings(tmp_path: Path) -> None:
    text = (
        "from dpframe import Pair\nimport numpy as np\n"
        "class Own(Pair, name='own-pair'):\n"
        "    '''Two numbers.'''\n"
        "    adjacency = 'one number'\n"
        "    d0 = property(lambda self: np.zeros(1))\n"
        "    d1 = property(lambda self: np.ones(1))\n"
    )
    written(tmp_path, "pairs_of_mine.py", text)
    alone = dpframe("check", "--plugin", "pairs_of_mine.py", cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout.startswith("pair own-pair · pairs_of_mine.py ")
    words = ("check", "--plugin", "pairs_of_mine.py", "--plugin", "own-pair")
    assert dpframe(*words, cwd=tmp_path).stdout == alone.stdout


def test_hooks_say_what_a_file_brings(tmp_path: Path) -> None:
    text = BOX.format(name="hooked").replace("import beside_of_hooked", "import dpframe")
    text += (
        "\nclass Other(HostMechanism, name='other-box'):\n"
        "    def sample(self, rng, data, n):\n        return rng.normal(size=n)\n"
        "\n@dpframe.hookimpl\ndef dpframe_mechanisms():\n    return [Other]\n"
    )
    known = registry.load(files=[written(tmp_path, "hooked.py", text)])
    assert [e.name for e in known.entries if e.distribution == "hooked.py"] == ["other-box"]


MISTAKES = {
    "absent.py": (None, "absent.py: no such file"),
    "words.txt": ("", "should be a Python file"),
    "syntax.py": ("\ndef (:\n", "syntax.py:2: invalid syntax\n   def (:"),
    "raising.py": ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero (raising.py:2)"),
    "leaving.py": ("raise SystemExit(0)\n", "SystemExit"),
    "zeros.py": ("\0", "null bytes"),
    "empty.py": ("from dpframe import Pair\n", "it defines no plugin"),
    "same.py": (
        "from dpframe import HostMechanism\nclass L(HostMechanism, name='laplace'):\n"
        "    def sample(self, rng, data, n):\n        return rng.normal(size=n)\n",
        "means the built-in mechanism",
    ),
    "twice.py": (
        "from dpframe import HostMechanism\n" + "class A(HostMechanism, name='a'):\n"
        "    def sample(self, rng, data, n):\n        return 1\n"
        + "class B(HostMechanism, name='a'):\n"
        "    def sample(self, rng, data, n):\n        return 1\n",
        "provides two mechanisms named 'a'",
    ),
    "hooks.py": (
        "import dpframe\n@dpframe.hookimpl\ndef dpframe_mechanism():\n    return []\n",
        "is not a hook of dpframe",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_file(name: str, tmp_path: Path) -> None:
    text, expected = MISTAKES[name]
    if text is not None:
        written(tmp_path, name, text)
    with pytest.raises(PluginError) as raised:
        registry.load(files=[tmp_path / name])
    assert expected in str(raised.value)
    assert str(raised.value).startswith(f"--plugin {tmp_path / name}")


def test_two_files_of_one_name_could_not_be_told_apart(tmp_path: Path) -> None:
    text = BOX.format(name="x").replace("import beside_of_x\n", "")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = written(tmp_path / "a", "alike.py", text)
    registry.load(files=[one, one])
    with pytest.raises(PluginError, match="another file of this run is called"):
        registry.load(files=[one, written(tmp_path / "b", "alike.py", text)])
