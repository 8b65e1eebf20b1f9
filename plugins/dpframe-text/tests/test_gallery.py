"""The gallery runs in a small form, and finds what it is expected to find."""

import tomllib
from pathlib import Path

import pytest

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


def test_some_mechanisms_run_small():
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


@pytest.mark.slow
def test_the_gallery_finds_what_it_is_expected_to():
    for cell in dpframe.audit(gallery())["cells"]:
        assert cell["verdict"] == cell["expected"], cell["mechanism"]["label"]
