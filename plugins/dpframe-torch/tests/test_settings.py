"""The checks of `watch` in usual settings: no false alarm, and a mistake is still noticed."""

import pytest
from torch_support.settings import MISTAKES, SETTINGS

OF_LIBRARIES = [
    "ignore::FutureWarning:transformers",
    "ignore::DeprecationWarning:transformers",
]
pytestmark = pytest.mark.filterwarnings(*OF_LIBRARIES)


SLOW = pytest.mark.slow
QUICK = ("accumulation", "per-layer clipping", "adaptive clipping", "ghost clipping")
RARELY_INSTALLED = ("LoRA", "Trainer", "Trainer without evaluation")


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=SLOW) if one in RARELY_INSTALLED else one for one in SETTINGS],
)
def test_a_right_training_gets_no_warning(name):
    found = SETTINGS[name].run()
    assert found.warnings == []
    assert found.verdict == "consistent"


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in SETTINGS if one != "ghost clipping"])
def test_gradient_canaries_get_no_warning(name):
    found = SETTINGS[name].run("random-gradient")
    assert found.warnings == []
    assert found.verdict == "consistent"


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize(
    "name", [one if one in QUICK else pytest.param(one, marks=SLOW) for one in SETTINGS]
)
def test_a_mistake_is_named_in_every_setting(name, mistake):
    plant, named = MISTAKES[mistake]
    found = SETTINGS[name].run(mistake=plant)
    assert any(named in text for text in found.warnings)
    assert found.verdict in ("inconclusive", "violated")
