"""A report for authors is complete, its script runs with NumPy alone, and it accuses no one."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from dpframe_watch import disclosure
from dpframe_watch.commands import disclose_app
from typer.testing import CliRunner

import dpframe
from dpframe import DpframeError
from dpframe.plugins import clopper_pearson_lower, clopper_pearson_upper


def script_of(folder: Path) -> str:
    record = dpframe.load(folder)
    return disclosure.reproduction(record, disclosure.cell_to_report(record, None), [folder])


def loaded(folder: Path) -> types.ModuleType:
    module = types.ModuleType("witness")
    exec(script_of(folder), module.__dict__)
    return module


@pytest.mark.parametrize("name", ["nan", "broken"])
def test_the_script_shows_the_violation_with_numpy_alone(name, records, tmp_path):
    path = tmp_path / "witness.py"
    path.write_text(script_of(records[name]), encoding="utf-8")
    code = "import runpy, sys; sys.modules['dpframe'] = None; sys.argv = ['witness.py']; "
    code += "runpy.run_path('witness.py', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "the claim is refuted" in done.stdout
    for told in re.findall(r"(\d+) of (\d+); probability (\S+) to (\S+)", done.stdout):
        hits, runs, low, high = map(float, told)
        assert low == pytest.approx(float(clopper_pearson_lower(hits, runs, 0.0005)), rel=1e-5)
        assert high == pytest.approx(float(clopper_pearson_upper(hits, runs, 0.0005)), rel=1e-5)
    loss = float(re.search(r"loss of at least ([\d.]+), claimed 1 ", done.stdout)[1])
    assert 1 < loss < (2.51 if name == "broken" else 6)


def test_the_script_of_a_mended_library_refutes_nothing(records):
    module = loaded(records["broken"])
    module.prepare = loaded_prepare = types.SimpleNamespace(
        releases=lambda n: np.random.default_rng(1).laplace(0, 1, n)
    )
    module.prepare = lambda params, data: loaded_prepare
    assert module.main(200) is False


def test_its_limits_are_those_of_clopper_and_pearson(records):
    limits = loaded(records["nan"]).limits
    for runs in (1, 2, 17, 400, 5000):
        for hits in {0, 1, runs // 3, runs - 1, runs}:
            for error in (0.025, 5e-7):
                low, high = limits(hits, runs, error)
                assert low == pytest.approx(
                    float(clopper_pearson_lower(hits, runs, error)), rel=1e-7
                )
                assert 1 - high == pytest.approx(
                    1 - float(clopper_pearson_upper(hits, runs, error)), rel=1e-7
                )
    assert limits(0, 9, 0.1)[0] == 0
    assert limits(9, 9, 0.1)[1] == 1


def test_it_refutes_a_true_claim_as_rarely_as_it_says(records):
    """Exact: the probability of every pair of counts is summed, for claims that just hold."""
    module, runs = loaded(records["nan"]), 60
    limits = [module.limits(hits, runs, 0.0005) for hits in range(runs + 1)]
    refuted = np.array([[module.loss_shown(a, b) > module.EPSILON for b in limits] for a in limits])

    def probability(likelier: float, other: float) -> float:
        counts = np.arange(runs + 1)
        ways = np.array([float(math.comb(runs, count)) for count in counts])
        on_more, on_less = (
            ways * p**counts * (1 - p) ** (runs - counts) for p in (likelier, other)
        )
        return float((refuted * np.outer(on_more, on_less)).sum())

    for p in (0.001, 0.01, 0.05, 0.2, 0.36):
        assert probability(math.e * p, p) <= 1 - 0.999
    assert probability(0.95, 0.05) > 0.95


@pytest.mark.parametrize("leak", ["a list", "a type", "an exception", "a share"])
def test_the_script_finds_an_event_where_the_record_has_no_condition(leak, records):
    module, rng = loaded(records["broken"]), np.random.default_rng(3)

    def release(data):
        if leak == "a list":
            flips = [bool(x) for x in rng.integers(0, 2, 3)]
            return [*flips, True, True] if data[0] else [*flips[::-1], True, flips[0] or flips[1]]
        if leak == "a type":
            return "text" if data[0] else {"a": 1}
        if leak == "an exception" and data[0]:
            raise ValueError("full")
        return [rng.laplace(), rng.laplace(data[0] if leak == "a share" else 0.0, 0.3)]

    module.prepare = lambda params, data: lambda: release(data)
    assert module.main(1500)


def test_data_are_written_as_python():
    frame = {"x": np.array([1.0, np.nan]), "y": [True, None, ("a", np.inf)]}
    text = repr(disclosure._written(frame))
    again = eval(text, {"np": np, "nan": np.nan, "inf": np.inf})
    assert again["x"].dtype == float
    assert np.isnan(again["x"][1])
    assert again["y"] == frame["y"]
    with pytest.raises(ValueError, match="object cannot be written"):
        disclosure._written([object()])


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2026-11-24"], "datetime64[D]"),
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        np.array([1, "x", None], object),
    ],
    ids=["dates", "records", "objects"],
)
def test_arrays_whose_text_numpy_cannot_read_are_not_written(values):
    with pytest.raises(ValueError, match="cannot be written as Python"):
        disclosure._written([values])


def test_nothing_tells_where_files_lie_on_this_machine(records, tmp_path):
    record = dpframe.load(records["nan"])
    (cell,) = record.cells
    home = "/home/me/secret project"
    params = {
        "module": f"{home}/my-box.py",
        "params": {"table": f"{home}/x.csv", "n": [1, "a/b", r"C:\Users\me\y.csv"]},
    }
    event = f"raises ValueError in {home}/lib.py line 3"
    cell = cell.model_copy(
        update={
            "mechanism": cell.mechanism.model_copy(update={"params": params}),
            "search": cell.search.model_copy(update={"event": event}),
            "pair": cell.pair.model_copy(
                update={"use": "files", "params": {"d0": f"{home}/d.csv", "description": home}}
            ),
        }
    )
    text = disclosure.report(record, cell, [tmp_path])
    assert "/home" not in text
    assert "PARAMS = {'table': 'x.csv', 'n': [1, 'a/b', 'y.csv']}" in text
    assert """sys.exit("TO DO: put here prepare() of 'my-box.py'")""" in text
    assert "raises ValueError in …" in text
    compile(disclosure.reproduction(record, cell, [tmp_path]), "witness.py", "exec")
    cell = cell.model_copy(
        update={"mechanism": cell.mechanism.model_copy(update={"use": "sql-engine"})}
    )
    assert "/home" not in disclosure.report(record, cell, [tmp_path])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("raises ValueError in /home/me/secret project/lib.py line 3", "in …lib.py line 3"),
        ('File "/home/jane doe/my lib/mod.py", line 3, in f', 'File "…mod.py", line 3, in f'),
        ("PosixPath('/home/jane doe/data set.csv')", "PosixPath('…data set.csv')"),
        (r"C:\Users\Jane Doe\lib.py, line 3", "…lib.py, line 3"),
        (r"'C:\\Users\\Jane Doe\\lib.py'", "'…lib.py'"),
        (r"C:\Program Files (x86)\Doe's\lib.py", "…lib.py"),
        (r"at \\server\share\jane doe\x.py", "at …x.py"),
        ("numpy 1.2 @ file:///home/jane/my pkgs/np-1.whl", "numpy 1.2 @ …np-1.whl"),
        ("FILE://C:/Users/jane/y.csv", "…y.csv"),
        ("~/jane/y z/w.py", "…w.py"),
        ("/home/o'jane/x.csv: denied", "…x.csv: denied"),
        ("/home/jane doe", "…"),
        ("'/Users/jane doe': denied", "'…': denied"),
        ("0x7f00aa00bb", "…"),
    ],
)
def test_paths_of_every_kind_are_masked(text, shown):
    found = disclosure.without_paths(text)
    assert shown in found
    assert not re.search("jane|doe|home|users|secret", found, re.IGNORECASE)


@pytest.mark.parametrize(
    "text", ["see https://example.org/a/b", "3/4 of a/b", "n / m and 1 / 2", "12 and/or 5 m/s"]
)
def test_other_texts_with_slashes_are_left_as_they_are(text):
    assert disclosure.without_paths(text) == text


def test_what_cannot_be_written_is_left_to_the_reader(records, tmp_path):
    record = dpframe.load(records["nan"])
    (cell,) = record.cells
    gone = cell.model_copy(update={"pair": cell.pair.model_copy(update={"use": "nowhere"})})
    text = disclosure.report(record, gone, [tmp_path])
    assert "First complete it where it says TO DO." in text
    assert """sys.exit("TO DO: put here prepare() of 'box.py'")""" in text
    assert "D = None  # TO DO: put here the data: pair nowhere" in text
    (tmp_path / "box.py").write_text("limits = 3\ndef prepare(params, data): ...\n")
    assert "prepare() of 'box.py'" in disclosure.reproduction(record, cell, [tmp_path])
    assert "def noisy_sum" in disclosure.reproduction(record, cell, [tmp_path, records["nan"]][1:])


def test_a_report_has_all_that_an_author_needs(records, tmp_path):
    out = tmp_path / "report.md"
    done = CliRunner().invoke(disclose_app, [str(records["nan"]), "-o", str(out)])
    assert done.exit_code == 0
    text = out.read_text(encoding="utf-8")
    assert out.stat().st_mode & 0o077 == 0
    for part in (
        "# Private report: ``sum of `x` <b>`` violates its claim",
        "claim: ε = 1 (pure-dp)",
        "neighbours: `add or remove one record`",
        "event: `the output is NaN`, 0 of",
        "certified: ε ≥ ",
        "def noisy_sum(values, epsilon):",
        "D_PRIME = np.array([[0.3], [0.2], [nan]], dtype='float64')",
        "must be the same on neighbouring datasets",
        "needs `NaN or a missing value`",
        "any would be called violated with a probability of at most 0.001",
        "the library's own security policy",
        "ninety days",
    ):
        assert part in text, part
    # The checklist has what SECURITY.md asks for.
    assert text.count("* [ ] ") == 6
    printed = CliRunner().invoke(disclose_app, [str(records["nan"] / "record.json")])
    assert printed.stdout == text


def test_a_text_of_the_record_changes_neither_script_nor_report(records):
    record = dpframe.load(records["nan"])
    (cell,) = record.cells
    label = 'x"""\nraise SystemExit\n"""@@RUNS@@\\'
    search = cell.search.model_copy(update={"event": "raises {x} ```` @@D0@@"})
    cell = cell.model_copy(
        update={"mechanism": cell.mechanism.model_copy(update={"label": label}), "search": search}
    )
    script = disclosure.reproduction(record, cell, [records["nan"]])
    assert compile(script, "script", "exec").co_consts[0].startswith("x'''")
    assert "@@RUNS@@" in script.split("Run it")[0]
    text = disclosure.report(record, cell, [records["nan"]])
    assert text.count("`````python") == 1


def test_records_without_a_violation_are_refused(records):
    record = dpframe.load(records["good"])
    with pytest.raises(DpframeError, match="there is nothing to disclose"):
        disclosure.cell_to_report(record, None)
    with pytest.raises(DpframeError, match="there is nothing to disclose"):
        disclosure.cell_to_report(record, record.cells[0].id)
    broken = dpframe.load(records["broken"])
    assert disclosure.cell_to_report(broken, broken.cells[0].id) is broken.cells[0]
    with pytest.raises(DpframeError, match="no violated cell is called 'other'"):
        disclosure.cell_to_report(broken, "other")
    done = CliRunner().invoke(disclose_app, [str(records["good"])])
    assert isinstance(done.exception, DpframeError)
