"""Mistakes of training scripts: each refutes the claim, is named, or is listed as not checked."""

import re
from pathlib import Path

import pytest
import torch
from dpframe_torch import clipping
from dpframe_torch.checks import p_of_squares
from dpframe_torch.findings import has_other_sum
from dpframe_torch.watching import sum_of
from scipy import stats
from torch_support import mistakes
from torch_support.mistakes import MISTAKES, outcome, run

REFUTED = ("noise off", "gradients not clipped", "clipped after averaging")
LISTED = ("stopped by the canaries' loss", "by hand: no noise")
STILL_CONSISTENT = ("validation data trained on", "noise of an earlier run", *LISTED)
"""Scripts whose own ε holds, or of which the audit cannot know."""
NAMES = [name for name in MISTAKES if name != "none"]


@pytest.mark.parametrize("name", NAMES)
def test_no_mistake_is_silent(name):
    found = run(name, 1, number=100)
    expected = {"listed"} if name in LISTED else {"named", "refuted"}
    assert outcome(name, found) in expected
    if name not in STILL_CONSISTENT:
        assert found.verdict in ("inconclusive", "violated")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_mistake_is_silent_over_several_seeds(name):
    assert all(outcome(name, run(name, seed)) != "silent" for seed in range(10))


@pytest.mark.parametrize("seed", [1, pytest.param(range(2, 12), marks=pytest.mark.slow)])
def test_a_right_script_gets_no_warning(seed):
    for one in [seed] if isinstance(seed, int) else seed:
        found = run("none", one)
        assert found.warnings == []
        assert found.verdict == "consistent"


@pytest.mark.parametrize("name", REFUTED)
def test_one_run_refutes_the_claim_of_a_script_with_a_mistake(name):
    found = run(name, 2, noise=2.0)
    assert found["rows"][0]["p_value"] < 1e-3
    assert found.verdict == "violated"


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUTED)
def test_mistakes_are_refuted_over_several_seeds(name):
    """At σ = 2 and 300 canaries, most of five runs; each with a p-value of its own."""
    found = [run(name, seed, noise=2.0).verdict for seed in range(5)]
    assert found.count("violated") >= 4


# Clipping, from the gradients of single records and their sum.


class Summed:
    """A stand-in for Opacus's optimiser after a step: `grad_sample` and `summed_grad` are set."""

    def __init__(self, samples, factors, dtype=torch.float32):
        self.params = []
        for one in samples:
            p = torch.nn.Parameter(torch.zeros(one.shape[1:]))
            p.grad_sample = one.to(dtype)
            p.summed_grad = torch.einsum("i,i...", factors.to(dtype), p.grad_sample)
            self.params.append(p)


def samples(rows, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, *size, generator=draws) for size in ((40, 30), (40,))]


@pytest.mark.parametrize("rows", [1, 3, 60])
def test_the_longest_gradient_in_a_sum_is_bounded_from_below_and_nearly_exact(rows):
    """Parameters with fewer than two coordinates a row are left out."""
    each = samples(rows)
    norms = each[0].flatten(1).norm(dim=1)
    factors = 1 / norms
    factors[0] = 5 / norms[0]
    used = each[: 1 + (rows < 20)]
    truth = float(torch.cat([one[0].flatten() for one in used]).norm() * factors[0])
    found = clipping.longest(Summed(each, factors), rows)
    assert 0.999 * truth < found <= 1.001 * truth


def test_nearly_dependent_gradients_and_other_sums_give_no_bound_above_the_truth():
    each = samples(40)
    for one in each:
        one[1] = one[0] * (1 + 1e-6)  # which of them was clipped cannot be known
    norms = torch.cat([one.flatten(1) for one in each], 1).norm(dim=1)
    found = Summed(each, 1 / norms)
    assert clipping.longest(found, 40) <= 1 + clipping.TOLERANCE
    for p in found.params:
        p.summed_grad = p.summed_grad.clamp(-0.1, 0.1)  # is no sum of scaled gradients
    assert clipping.longest(found, 40) <= 1 + clipping.TOLERANCE


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_no_bound_above_the_truth(dtype):
    each = samples(40)
    norms = torch.cat([one.flatten(1) for one in each], 1).norm(dim=1)
    found = clipping.longest(Summed(each, 1 / norms, dtype), 40)
    assert found is None or found <= 1 + clipping.TOLERANCE


@pytest.mark.parametrize("rows", [0, 1_000])
def test_batches_that_are_empty_or_too_large_are_not_tried(rows):
    assert clipping.longest(Summed(samples(rows), torch.ones(rows)), rows) is None


def test_values_that_are_not_finite_or_zero_give_no_bound():
    each = samples(3)
    assert clipping.longest(Summed([0 * one for one in each], torch.ones(3)), 3) in (None, 0.0)
    for one in each:
        one[0, 0] = torch.nan
    assert clipping.longest(Summed(each, torch.ones(3)), 3) is None


# Noise of single parameters.


def test_noise_of_single_parameters_is_tested_at_its_level():
    draws = torch.Generator().manual_seed(0)
    p_values = torch.tensor(
        [
            p_of_squares(float(torch.randn(50, generator=draws).square().sum()), 50)
            for _ in range(400)
        ]
    )
    assert (p_values <= 0.05).sum() <= stats.binom.isf(1e-6, 400, 0.05)
    assert (p_values <= 0.5).sum() > 100
    assert p_of_squares(0.25 * 500, 500) < 1e-6


def test_references_trained_before_or_after_the_model_are_no_models_beside_it():
    one = mistakes.script(number=60)
    step = mistakes._own_steps(mistakes._copy_of(one))
    one.canaries.watch(one.model, one.optimizer)
    for x, y in one.loader:
        step(x, y)
    model = mistakes.train(one, 2)
    for x, y in one.loader:
        step(x, y)
    found = one.canaries.audit(model, None, 1e-5, engine=one.engine)
    assert found.warnings == []


def test_merged_lora_is_no_training_of_frozen_parameters():
    one = mistakes.script(number=60, frozen=(0,))
    first = one.model._module[0]
    model = mistakes.train(one, 2)
    with torch.no_grad():
        first.weight += 1.0
    assert one.canaries.audit(model, None, 1e-5, engine=one.engine).warnings == []
    first.requires_grad_(True)
    found = one.canaries.audit(model, None, 1e-5, engine=one.engine)
    assert any("1 of 4 parameters changed" in text for text in found.warnings)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float8_e4m3fn])
def test_frozen_parameters_of_any_type_are_compared_or_left_alone(dtype):
    p = torch.nn.Parameter(torch.ones(5).to(dtype), requires_grad=False)
    total, magnitude = sum_of(p)
    assert (total, magnitude) in [(5.0, 5.0), (0.0, 0.0)]
    assert not has_other_sum(p, (total, magnitude))


def test_the_table_of_pitfalls_has_every_mistake():
    page = Path(__file__).parents[3] / "docs/how-to/audit-training.md"
    section = page.read_text(encoding="utf-8").split("### Pitfalls")[1].split("\n### ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert set(re.findall(r'"([^"]+)"', "\n".join(rows))) == set(NAMES)
