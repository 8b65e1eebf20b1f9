"""Records of a good and a broken mechanism, and a dpframe that only pretends to work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import made
import pytest
from dpframe_watch import audits

import dpframe

SPECS = {
    "good": 'pair = { use = "zeros-ones" }\nattack = [{ use = "identity" }]\n'
    'estimator = [{ use = "order-statistics" }]\n',
    "broken": 'pair = { use = "zeros-ones" }\nattack = [{ use = "identity" }]\n'
    'estimator = [{ use = "order-statistics" }]\n',
    "nan": 'search = { use = "records", params = { table = [[0.3], [0.2]], adjacency = '
    '"add-remove", schema = [{ name = "x", low = 0, high = 1 }] } }\n',
}


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Directories with a record and its module, by name."""
    found = {}
    for name, where in SPECS.items():
        folder = tmp_path_factory.mktemp(name)
        module = made.LIBRARY.format(scale=0.4 if name == "broken" else 1.0)
        module += "\n\ndef prepare(params, data):\n    values = [float(x) for x in data.ravel()]\n"
        module += "    return lambda: noisy_sum(values, 1.0)\n"
        (folder / "box.py").write_text(module, encoding="utf-8")
        text = (
            'schema = 1\naudit = { name = "made", trials = 2000, confidence = 0.999 }\n'
            f'{where}mechanism = [{{ use = "program", label = "sum of `x` <b>", params = '
            '{ module = "box.py", epsilon = 1.0 } }]\n'
        )
        (folder / "spec.toml").write_text(text, encoding="utf-8")
        record = dpframe.audit(folder / "spec.toml", plugins=[folder / "box.py"])
        content = json.dumps(record.as_json())
        (folder / "record.json").write_text(content, encoding="utf-8")
        found[name] = folder
    return found


class Pretended:
    """A replacement for `call` that uses existing records."""

    def __init__(self, records: dict[str, Path]) -> None:
        self.records, self.calls = records, list[str]()
        self.verdicts = {"1.0": "broken"}  # by version; others are good
        self.newest = "2.0"
        self.says: dict[str, str] = {}  # why a version cannot be built
        self.stops_at = ""  # a version whose audit is interrupted

    def __call__(self, words: list[str], folder: Path, seconds: float | None = None) -> audits.Done:
        if words[:2] == ["environments", "build"]:
            (line,) = (x for x in (folder / words[2]).read_text().splitlines() if "dpframe-" in x)
            version = line.partition("==")[2].partition('"')[0] or self.newest
            self.calls.append(f"build {version}")
            if version in self.says:
                return audits.Done(2, self.says[version])
            lock = f"# environment: {folder.name}\n# requirements: …\n# python 3.11.9\n"
            lock += f"dpframe-tinylib=={version}\n"
            (folder / "an.lock").write_text(lock, encoding="utf-8")
        elif words[0] == "run":
            (named,) = (x for x in words if x.startswith("mechanism.environment="))
            version = named.rpartition(" ")[2].strip('"').replace("latest", self.newest)
            self.calls.append(f"run {version}")
            if version == self.stops_at:
                raise KeyboardInterrupt
            assert (folder / words[1]).is_file()
            assert (folder / words[words.index("--plugin") + 1]).is_file()
            out = Path(words[words.index("--out") + 1])
            out.mkdir(parents=True)
            source = self.records[self.verdicts.get(version, "good")]
            shutil.copyfile(source / "record.json", out / "record.json")
        return audits.Done(0, "")


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, records: dict[str, Path]) -> Pretended:
    """A dpframe that builds nothing and draws nothing, on a fixed day."""
    found = Pretended(records)
    monkeypatch.setattr(audits, "call", found)
    monkeypatch.setattr(audits, "report", lambda record, path: path.write_text("<html></html>"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    return found
