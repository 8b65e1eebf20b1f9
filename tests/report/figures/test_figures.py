"""Figures of every kind keep the same rules."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET

import matplotlib as mpl
import pytest
from support import made_cells, made_records, processes
from support.command_line import dpframe as command
from support.tiers import mostly_slow

import dpframe
from dpframe.commands.plot import FORMATS
from dpframe.report import figures
from dpframe.report.figures.drawing import content, inline
from dpframe.results.store import as_record, dumps

GENERAL = ["sweep", "heat-map", "trade-off", "profile", "comparison", "scores"]
"""Kinds for records of every sort; test_paper_figures.py has the others."""
ODD = ("$x_1$ & <b>", "100 % $", "é–漢字 \\frac{1}{2}", "a" * 60, "a" * 59 + "b")


def texts(picture):
    from matplotlib.text import Text

    return [text.get_text() for text in picture.findobj(Text) if text.get_text()]


@pytest.mark.parametrize("kind", mostly_slow(GENERAL, ("comparison",)))
def test_the_same_record_is_drawn_in_the_same_bytes(fitting, kind, monkeypatch):
    record = fitting[kind]
    endings = FORMATS if kind == "sweep" else ("svg",)
    first = {ending: content(figures.draw(record, kind), ending) for ending in endings}
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12345")
    taste = {"font.size": 20, "svg.hashsalt": None, "lines.color": "red", "text.parse_math": True}
    with mpl.rc_context(taste):
        again = {ending: content(figures.draw(record, kind), ending) for ending in endings}
        assert mpl.rcParams["font.size"] == 20
    assert first == again
    assert ET.fromstring(first["svg"]).get("width")
    if kind == "sweep":
        assert first["png"].startswith(b"\x89PNG")
        assert first["pdf"].startswith(b"%PDF")


def test_a_drawing_follows_its_page_in_a_file_and_is_on_paper_in_a_notebook(fitting):
    picture = figures.draw(fitting["heat-map"], "heat-map")
    drawn, shown = content(picture, "svg").decode(), picture._repr_svg_()
    ground = re.compile('<path d="[^"]*" style="fill: #ffffff"/>')
    assert not ground.search(drawn)
    assert ground.search(shown)  # a notebook's page can be dark where the desktop is light
    assert "@media" not in shown
    rules = re.findall(r"prefers-color-scheme:dark\){(.*?)}}</style>", drawn)
    colors = set(re.findall(r"(?:fill|stroke): #\w{6}", drawn.replace(rules[0], "")))
    assert colors == set(re.findall(r'\[style\*="(.*?)"\]', rules[0]))


@pytest.mark.slow
def test_nothing_of_pyplot_is_needed():
    code = (
        "import sys\n"
        "from support import made_records\n"
        "import dpframe\n"
        "found = made_records.record([made_records.cell(epsilon=e) for e in (1.0, 2.0)])\n"
        "dpframe.plot(found)\n"
        "print([m for m in ('jax', 'matplotlib.pyplot') if m in sys.modules])"
    )
    done = processes.run("-c", f"import sys; sys.path.insert(0, 'tests')\n{code}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", mostly_slow(GENERAL, ("heat-map",)))
def test_labels_are_shown_as_they_are(kind):
    cells = [
        made_records.cell("adept", e, dim) | {"id": f"{i}-{e}-{dim}"}
        for i in range(len(ODD))
        for e in (0.1, 1.0)
        for dim in (1, 2)
    ]
    for index, cell in enumerate(cells):
        label = ODD[index // 4]
        cell["mechanism"] = cell["mechanism"] | {"label": label}
        cell["estimator"] = cell["estimator"] | {"label": label}
        cell["estimate"] = cell["estimate"] | {"tradeoff": [[0.1, 0.2]]}
        if kind == "comparison" and index % 2:
            cell["estimator"] = cell["estimator"] | {"label": "another"}
        if kind == "scores":
            cell |= {name: made_cells.counted()[name] for name in ("counts", "statistic")}
    record = as_record(made_records.record(cells))
    drawn = figures.draw(record, kind)
    page = ET.fromstring(inline(drawn))
    shown = "".join(page.itertext())
    for label in ODD[:2]:
        assert label in "\n".join(texts(drawn))
        assert label in shown
    if kind == "sweep":  # the same text in all of them; its letters take long to embed
        assert content(drawn, "pdf")


@pytest.mark.parametrize("kind", mostly_slow(GENERAL, (0, 1, 2)))
def test_nothing_is_called_private_and_no_bound_infinite(fitting, kind):
    picture = figures.draw(fitting[kind], kind)
    said = "\n".join([*texts(picture), picture.caption])
    assert "privat" not in said
    assert "safe" not in said
    assert ("another attack may show more" in picture.caption) == (kind != "scores")


@pytest.mark.parametrize("kind", mostly_slow(GENERAL, ("scores", "comparison")))
def test_an_inline_figure_has_no_id_twice_and_no_prolog(fitting, kind):
    text = inline(figures.draw(fitting[kind], kind))
    assert text.startswith("<svg")
    ids = [element.get("id") for element in ET.fromstring(text).iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|")#([^")]*)', text)) <= set(ids)
    assert "url(#" in text
    assert "<dc:date>" not in text


def test_a_wrong_kind_is_answered_with_those_that_fit(small):
    with pytest.raises(dpframe.DpframeError) as caught:
        figures.draw(small, "heatmap")
    assert "did you mean 'heat-map'?" in str(caught.value)
    assert "kinds that fit it: sweep, heat-map" in str(caught.value)
    assert "scores: none of its cells counted scores in bins" in str(caught.value)


def test_a_kind_that_does_not_fit_says_why(small):
    one = small.model_copy(update={"cells": small.cells[:1]})
    with pytest.raises(dpframe.DpframeError, match="no parameter that is a number is swept"):
        figures.draw(one, "sweep")


def test_cells_without_curves_have_none(small):
    bare = as_record(made_records.record([made_records.cell()]))
    reasons = figures.kinds(bare)
    assert reasons["profile"] == reasons["trade-off"]
    assert reasons["profile"] == "no estimate of it has a curve or certified points"


def test_a_record_of_failures_cannot_be_drawn():
    cells = [made_records.failed_cell(epsilon=e) for e in (1.0, 2.0)]
    with pytest.raises(dpframe.DpframeError, match="no kind of figure fits this record"):
        dpframe.plot(made_records.record(cells, m=2))


def test_a_record_without_cells_cannot_be_drawn():
    with pytest.raises(dpframe.DpframeError, match="has no cells"):
        dpframe.plot(made_records.record([]))


def test_what_failed_or_was_skipped_is_named(small):
    cells = [made_records.cell(epsilon=e) for e in (1.0, 2.0)]
    found = made_records.record([*cells, made_records.failed_cell(epsilon=5.0)], m=3)
    caption = dpframe.plot(found, "sweep").caption
    assert "1 cell failed and is not shown." in caption
    assert "5" in texts(dpframe.plot(found, "heat-map"))


def test_cells_can_be_chosen(small):
    drawn = figures.draw(small, "sweep", where={"mechanism": "adept", "pair.dim": [8.0]})
    assert "adept" in texts(drawn)
    assert "laplace" not in texts(drawn)
    with pytest.raises(dpframe.DpframeError, match=r"no cell has pair.dim = 3; there are 1, 8"):
        figures.draw(small, where={"pair.dim": 3})
    with pytest.raises(dpframe.DpframeError, match="no cell has 'dim'; there are mechanism"):
        figures.draw(small, where={"dim": 1})


def test_the_extra_is_named_where_matplotlib_is_missing(small, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(dpframe.DpframeError, match=r"pip install 'dpframe\[plot\]'"):
        figures.draw(small)


def test_records_and_their_files_are_drawn(tmp_path):
    found = made_records.record([made_records.cell(epsilon=e) for e in (1.0, 2.0)])
    record = as_record(found)
    file = tmp_path / "record.json"
    file.write_text(dumps(record), encoding="utf-8")
    pictures = [dpframe.plot(what, "heat-map") for what in (found, record)]
    assert len({content(picture, "svg") for picture in pictures}) == 1
    with pytest.raises(dpframe.DpframeError, match="altered"):  # made up, so its digest is wrong
        dpframe.plot(tmp_path, "heat-map")
    assert pictures[0]._repr_svg_().startswith("<svg")


@pytest.mark.slow
@pytest.mark.parametrize("side", [10, 100])
def test_ten_thousand_cells_are_few_things_to_draw(side):
    found = made_records.record([made_records.cell("laplace", 1.0, m=side**2)])
    found["cells"][0]["estimate"]["tradeoff"] = [[0.3, 0.3]]
    (one,) = as_record(found).cells
    cells = [
        one.model_copy(
            update={
                "swept": {"mechanism.epsilon": 0.1 + a / 10, "pair.dim": b + 1},
                "id": f"{a}-{b}",
            }
        )
        for a in range(side)
        for b in range(side)
    ]
    record = as_record(found).model_copy(update={"cells": cells})
    for kind in ("sweep", "heat-map", "profile"):
        picture = figures.draw(record, kind)
        assert len(picture.findobj()) < 6_000
    assert f"{side**2 - 6} more settings are left out" in picture.caption
    assert f"{side - 8} more lines are left out" in figures.draw(record, "sweep").caption


@pytest.mark.slow
def test_the_command_writes_and_overwrites_whole_files(tmp_path, small, monkeypatch):
    monkeypatch.setattr("dpframe.results.store.load", lambda path: small)
    out = tmp_path / "figure.svg"
    out.write_text("before")
    done = command("plot", "run", "-o", "figure.svg", "--where", "mechanism=adept", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("figure.svg: Loss of dptext against claimed ε; between")
    assert ET.parse(out)
    assert [path.name for path in tmp_path.iterdir()] == ["figure.svg"]
    listed = command("plot", "run", cwd=tmp_path)
    assert "sweep: fits" in listed.stdout
    for words, said in (
        (["-o", "figure.jpg"], "written as .svg, .png or .pdf"),
        (["-o", "none/figure.svg"], "cannot be written: No such file or directory"),
        (["--kind", "sweep"], "with -o FILE"),
        (["-o", "figure.svg", "--where", "dim"], "should be KEY=VALUE"),
        (["-o", "figure.svg", "--panel", "nobody"], "no mechanism 'nobody'"),
        (["-o", "figure.svg", "--kind", "heat-map", "--panel", "adept"], "not in heat-map"),
    ):
        done = command("plot", "run", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
