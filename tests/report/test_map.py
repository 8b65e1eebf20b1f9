"""The map of a sweep: a sign and a shade for each cell, and the claim as its unit."""

import re

import pytest

SHADES = "·░▒▓█"


def shown_map(text):
    """The lines of the map, without the legend."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("Certified ε ÷"))
    blank = lines.index("", first)
    return lines[blank + 1 : next(i for i, line in enumerate(lines) if line.startswith("──"))]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_map_looks_as_reviewed(records, show, golden, width):
    golden(f"figure-2-{width}.txt", show(records.figure_2(), width, numbers=False))


def test_the_map_in_ascii_looks_as_reviewed(records, show, golden):
    text = show(records.figure_2(), encoding="ascii", numbers=False)
    assert text.isascii()
    golden("figure-2-ascii.txt", text)


def test_252_cells_and_all_that_is_said_of_them_are_about_fifty_lines(records, show):
    text = show(records.figure_2(), 80, numbers=False)
    assert len(text.splitlines()) <= 52
    signs = re.findall(f"[✗○?!~][{SHADES}]", "\n".join(shown_map(text)))
    assert len(signs) == 252
    assert sum(sign[0] == "✗" for sign in signs) == 119


def test_numbers_are_shown_on_demand_and_where_there_is_no_map(records, show):
    swept = [records.cell("laplace", e, d) for e in (0.5, 1.0) for d in (1, 2)]
    text = show(records.record(swept), numbers=False)
    assert "empirical ε" not in text
    assert "The numbers of every cell: --numbers" in text
    text = show(records.record(swept), numbers=True)
    assert "empirical ε" in text
    assert "--numbers" not in text
    text = show(records.record([records.estimate_only(epsilon=1.0)], m=0), numbers=False)
    assert "empirical ε" in text
    assert "--numbers" not in text


@pytest.mark.parametrize(
    ("lower", "claimed", "shade"),
    [
        (0.0, 1.0, "·"),
        (0.5, 1.0, "░"),
        (0.51, 1.0, "▒"),
        (1.0, 1.0, "▒"),
        (1.01, 1.0, "▓"),
        (10.0, 1.0, "▓"),
        (10.1, 1.0, "█"),
        (3.0, "inf", "·"),
        (0.1, 0.0, "█"),
        (0.0, 0.0, "·"),
    ],
)
def test_a_shade_is_certified_over_claimed(records, show, lower, claimed, shade):
    cells = [records.cell("laplace", 1.0, d) for d in (1, 2)]
    for cell in cells:
        cell["estimate"]["epsilon_lower"] = lower
        cell["claim"]["epsilon"] = claimed
    drawn = "\n".join(shown_map(show(records.record(cells), numbers=False)))
    assert f"○{shade} ○{shade}" in drawn


def test_only_shades_that_occur_are_explained(records, show):
    text = show(records.figure_2(), numbers=False)
    assert set(re.findall(r"^Certified ε ÷.*$", text, re.MULTILINE)[0]) >= set(SHADES)
    one = show(records.record([records.cell("copy-input", 0.1, d) for d in (1, 2)]), numbers=False)
    assert "█ more" in one
    assert "up to" not in one


def test_what_failed_and_what_is_unexpected_is_marked(records, show):
    cells = [records.cell("laplace", e, d) for e in (0.5, 1.0) for d in (1, 2)]
    cells[1] = records.failed_cell(epsilon=0.5, dim=2)
    cells[2]["expected"] = "violated"
    text = show(records.record(cells), numbers=False)
    drawn = "\n".join(shown_map(text))
    assert re.search(r"0\.5  ○▒  !\n1   ▶○▒  ○▒", drawn)
    assert "! failed" in text
    assert "▶ not as expected" in text


def test_of_repeats_the_worst_is_shown(records, show):
    cells = [records.cell("laplace", 1.0, d, repeat=i) for d in (1, 2) for i in range(3)]
    worst = cells[4]
    worst["estimate"]["epsilon_lower"] = 20.0
    worst["verdict"] = "violated"
    text = show(records.record(cells), numbers=False)
    assert "○▒ ▶✗█" in text
    assert "of repeats the worst" in text
    assert "certified 20.0 of claimed 1, at dim 2 repeat 1" in text


def test_without_anything_to_compare_there_are_numbers_instead(records, show):
    cells = [records.estimate_only(epsilon=e, dim=d) for e in (0.1, 1.0) for d in (1, 2)]
    text = show(records.record(cells, m=0), numbers=False)
    assert "Certified ε ÷" not in text
    assert "~ 0.900" in text


def test_one_swept_key_makes_one_map_of_all_mechanisms(records, show):
    cells = [records.cell(use, e, 2) for use in records.LABELS for e in (0.1, 1.0, 10.0)]
    drawn = shown_map(show(records.record(cells), numbers=False))
    assert drawn[0].split() == ["0.1", "1", "10"]
    assert drawn[2].split() == ["adept", "✗▓", "✗▓", "✗▓"]
    narrow = shown_map(show(records.record(cells), 30, numbers=False))
    assert narrow[3:5] == ["adept", "✗▓  ✗▓ ✗▓"]


def test_three_swept_keys_make_a_map_for_each_value_of_the_third(records, show):
    cells = [records.cell("laplace", e, d) for _ in range(2) for e in (0.1, 1.0) for d in (1, 2)]
    for index, cell in enumerate(cells):
        cell["swept"]["mechanism.scale"] = index // 4
    drawn = "\n".join(shown_map(show(records.record(cells), numbers=False)))
    assert "laplace, scale 0" in drawn
    assert "laplace, scale 1" in drawn


def test_a_map_that_is_too_wide_is_cut(records, show):
    cells = [records.cell("laplace", e, d) for e in (0.1, 1.0) for d in range(1, 41)]
    text = show(records.record(cells), 60, numbers=False)
    assert max(map(len, text.splitlines())) <= 60
    assert len(re.findall("[○✗][·░▒▓█]", "\n".join(shown_map(text)))) == 80
