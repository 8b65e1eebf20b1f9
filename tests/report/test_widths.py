"""Random records at any width: no name is lost, no line is too wide, every sign is explained."""

import random
import re

import pytest
from rich.cells import cell_len
from support.tiers import mostly_slow

LETTERS = "abcdefghij klmnop QRSTUVWXYZ 0123456789 ·-_[]/ äß 漢字表記 한국어 🎲🧪"
SWEEPS = [
    {},
    {"mechanism.epsilon": [0.1, 1.0, 10.0]},
    {"mechanism.epsilon": [0.1, 1.0], "pair.dim": [1, 128]},
    {"attack.way": ["left", "right, and then further"], "pair.dim": list(range(1, 20))},
    {"mechanism.epsilon": [0.1, 1.0], "pair.dim": [1, 2], "estimator.bins": [10, 1000]},
]
SEEDS = range(8)
WIDTHS = [20, 21, 27, 40, 60, 80, 133, 200]


def label(rng):
    while True:
        text = "".join(rng.choices(LETTERS, k=rng.randint(1, 60))).strip()
        if text:
            return text


def places(sweep):
    found = [{}]
    for key, values in sweep.items():
        found = [place | {key: value} for place in found for value in values]
    return found


def random_record(records, seed):
    """A record of everything that a report has to show, and the names in it."""
    rng = random.Random(seed)
    cells, names = [], [label(rng) for _ in range(rng.randint(1, 4))]
    sweep = rng.choice(SWEEPS)
    for name in names:
        claimed, certifies = rng.choice([None, 0.0, 0.1, 2.0, "inf"]), rng.random() < 0.8
        estimator = rng.choice(["precision", "an estimator, called at length"])
        repeats = rng.choice([1, 1, 3])
        for place in places(sweep):
            for repeat in range(repeats):
                make = records.failed_cell if rng.random() < 0.1 else records.cell
                cell = make(trials=1000, repeat=repeat)
                cell["swept"] = place
                cell["mechanism"] = cell["mechanism"] | {"label": name}
                cell["estimator"] = cell["estimator"] | {"label": estimator}
                cell["expected"] = rng.choice([None, None, "violated"])
                cell["claim"] = None if claimed is None else records.pure_claim(claimed)
                if cell["estimate"]:
                    fill(cell, certifies, rng)
                cells.append(cell)
    return records.record(cells), set(names)


def fill(cell, certifies, rng):
    lower = rng.choice([0.0, 1e-5, 0.4, 1.7, 13.8, 1234.5]) if certifies else None
    judged = certifies and cell["claim"] is not None
    cell["verdict"] = rng.choice(["violated", "consistent", "inconclusive"]) if judged else None
    cell["estimate"] |= {
        "epsilon": rng.choice([0.0, 0.5, 2.25, "inf"]),
        "epsilon_lower": lower,
        "epsilon_upper": rng.choice([20.0, "inf"]) if certifies else None,
        "interval": None if certifies else rng.choice([None, [0.1, "inf"]]),
        "certified": certifies,
    }


def squeezed(text):
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("seed", mostly_slow(SEEDS, (0, 1)))
def test_no_name_is_lost_and_no_line_is_too_wide(records, show, seed, numbers):
    record, names = random_record(records, seed)
    ran = {c["mechanism"]["label"] for c in record["cells"] if c["status"] == "ok"}
    for width in WIDTHS:
        text = show(record, width, numbers=numbers)
        assert max(map(cell_len, text.splitlines())) <= width, width
        assert "…" not in re.sub(" … (?!and)", "", text.partition("──")[0]), width
        body, summary = map(squeezed, text.rsplit("─" * width, 1))
        assert all(squeezed(name) in body for name in ran), width
        if len(record["cells"]) > len(names):
            assert all(squeezed(name) in summary for name in names), width


EXPLAINED = {
    "✗": "violated",
    "○": "no violation found",
    "?": "inconclusive",
    "!": "failed",
    "~": "no verdict",
    "▶": "not as expected",
    "░": "up to 0.5",
    "▒": "up to 1",
    "▓": "up to 10",
    "█": "more",
    "≥": "certified: the loss is at least this",
    "≤": "0.13 the most",
    "⌀": "the mean of the repeats' certified bounds",
    "±": "its standard deviation over the repeats",
    "∞": "no finite value",
    "━": "from the certified bound to what this attack can show",
    "●": "empirical ε",
    "┃": "claimed ε",
    "→": "continues beyond twice the claim",
}
"""Every sign of a report, and what the legend says of it."""


@pytest.mark.parametrize("width", [36, 80, 160])
@pytest.mark.parametrize("seed", mostly_slow(SEEDS, (0, 1)))
def test_the_legend_explains_every_sign_that_occurs_and_no_other(records, show, seed, width):
    record, _ = random_record(records, seed)
    for number, cell in enumerate(record["cells"]):
        cell["mechanism"]["label"] = "abc"[number * 3 // len(record["cells"])]
    text = show(record, width, numbers=True)
    flat = " ".join(text.split())
    for sign, meaning in EXPLAINED.items():
        said = re.compile(rf"{re.escape(sign)}(?: 0\.\d+)? +{re.escape(meaning)}")
        elsewhere = sign in said.sub("", flat).replace("0.13", "")
        assert (said.search(flat) is not None) == elsewhere, (sign, width)
