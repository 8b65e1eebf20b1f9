"""The gallery runs in a small form, and finds what it is expected to find."""

import tomllib
from pathlib import Path

import pytest
from dpframe_text.choices import WordChoices

import dpframe

GALLERY = Path(__file__).parents[1] / "specs" / "gallery.toml"
SOME = ("santext, squared", "santext-plus", "dp-prompt, own length", "von-mises-fisher")


def gallery(*labels, **audit):
    """Return the gallery as a dict, with these mechanisms only, or with all of them."""
    spec = tomllib.loads(GALLERY.read_text(encoding="utf-8"))
    spec["audit"] |= audit
    if labels:
        del spec["expect"]
        kept = [one for one in spec["mechanism"] if one.get("label", one["use"]) in labels]
        spec["mechanism"] = kept
    return spec


def test_draws_alone_refute_some_mechanisms(monkeypatch):
    monkeypatch.delattr(WordChoices, "choices")
    record = dpframe.audit(gallery(*SOME, trials=20_000, confidence=0.999999))
    verdicts = {cell["mechanism"]["label"]: cell["verdict"] for cell in record["cells"]}
    assert len(verdicts) == len(SOME)
    assert all(cell["status"] == "ok" for cell in record["cells"])
    assert verdicts["santext, squared"] == verdicts["dp-prompt, own length"] == "violated"
    assert "violated" not in (verdicts["santext-plus"], verdicts["von-mises-fisher"])


def test_every_mechanism_has_an_expected_verdict():
    spec = gallery()
    labels = [one.get("label", one["use"]) for one in spec["mechanism"]]
    expected = [label for one in spec["expect"] for label in one["where"]["mechanism"]]
    assert sorted(labels) == sorted(expected)


def test_stated_distributions_decide_some_mechanisms():
    labels = "santext, no half", "dp-prompt, greedy", "custext, rare kept", "santext, own scale"
    record = dpframe.audit(gallery(*labels, trials=5_000))
    stated = {cell["mechanism"]["label"]: cell["stated"]["verdict"] for cell in record["cells"]}
    assert stated == dict.fromkeys(labels[:3], "violated") | {labels[3]: "consistent"}


@pytest.mark.slow
def test_the_search_finds_most_mistakes_by_draws_alone(monkeypatch):
    monkeypatch.delattr(WordChoices, "choices")
    cells = dpframe.audit(gallery())["cells"]
    wrong = [cell for cell in cells if "," in cell["mechanism"]["label"]]
    assert sum(cell["verdict"] == "violated" for cell in wrong) >= 25
    assert not any(cell["verdict"] == "violated" for cell in cells if cell not in wrong)
