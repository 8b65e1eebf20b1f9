"""Scores of canaries: larger for members, in any order, and whatever the model returns."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from dpframe_torch import Canaries, CanaryError
from dpframe_torch.auditing import judged
from dpframe_torch.scoring import Scoring, lira, record_losses, rmia
from scipy import stats
from torch.utils.data import default_collate as collate
from torch_support import network, plain, table

import dpframe

NAMED = {"run": "r", "kind": "k", "score": "s"}


def bound(scores, members, **options):
    return judged(
        scores=np.asarray(scores, float),
        members=np.asarray(members, bool),
        **{
            "epsilon": None,
            "engine": None,
            "delta": 0.0,
            "confidence": 0.95,
            "estimators": ["one-run"],
            "warnings": [],
            "described": NAMED,
            **options,
        },
    )


def overfitted(canaries):
    return plain(canaries.train_set, epochs=60, rate=0.01, batch=20)


@pytest.mark.parametrize(("kind", "score"), [("mislabelled", "contrast"), ("mislabelled", "loss")])
def test_a_model_that_learned_its_canaries_by_heart_gives_them_away(kind, score):
    canaries = Canaries(table(), 200, kind, seed=1)
    found = canaries.audit(overfitted(canaries), 0.5, score=score)
    assert found.epsilon_lower > 1
    assert found.verdict == "violated"
    assert found["refuted"]
    assert "violated" in str(found)
    assert found.ceiling > found.epsilon_lower


def test_reference_models_take_off_how_hard_a_record_is():
    data = table()
    canaries = Canaries(data, 200, "as-they-are", seed=1)
    model = plain(canaries.train_set, epochs=25, rate=0.02)
    others = [plain(table(seed=s), epochs=5, rate=0.02) for s in (3, 4)]
    task = Scoring(canaries.records, None, torch.utils.data.default_collate, 64)
    found = torch.from_numpy(task.scores(model, "loss", others))
    own = -record_losses(model, _batch(canaries)).detach()
    mean = sum(record_losses(one, _batch(canaries)) for one in others).detach() / 2
    assert torch.allclose(found, (own + mean).double(), atol=1e-5)


def _batch(canaries):
    return torch.utils.data.default_collate(canaries.records)


def rank_of_members(scores, members):
    return stats.mannwhitneyu(scores[members], scores[~members]).statistic / (
        members.sum() * (~members).sum()
    )


def test_reference_models_with_coins_of_their_own_show_more():
    """Records as they are, which differ in difficulty: the share of pairs that are in order."""
    canaries = Canaries(table(), 300, "as-they-are", seed=1)
    train = partial(plain, epochs=12, rate=0.02)
    model = train(canaries.train_set)
    references = {k: train(canaries.reference_set(k)) for k in range(6)}
    task = Scoring(canaries.records, None, torch.utils.data.default_collate, 64)
    found = {
        name: rank_of_members(
            task.scores(model, name, given, None, canaries._reference_coins), canaries._members
        )
        for name, given in (("loss", ()), ("lira", references), ("rmia", references))
    }
    assert found["lira"] > found["loss"] + 0.03
    assert found["rmia"] > found["loss"] + 0.03
    assert canaries.audit(model, score="lira", references=references)["training"]["score"] == "lira"


def test_reference_scores_against_naive_formulas():
    rng = np.random.default_rng(0)
    own, others = rng.normal(size=5) + 3, rng.normal(size=(40, 5)) + 3
    inside = rng.random((40, 5)) < 0.5
    inside[:, 0], inside[:, 1] = False, True  # no reference was trained with it, or all were
    found, ratios = lira(own, others, inside), rmia(own, others, inside)
    for k in (2, 3, 4):
        each = [others[inside[:, k] == told, k] for told in (True, False)]
        logs = [stats.norm.logpdf(own[k], one.mean(), one.std(ddof=1)) for one in each]
        assert found[k] == pytest.approx(logs[0] - logs[1])
        assert ratios[k] == pytest.approx(
            -own[k] - np.log((np.exp(-each[0]).mean() + np.exp(-each[1]).mean()) / 2)
        )
    assert np.isfinite(found).all()
    assert np.isfinite(ratios).all()
    offline = lira(own, others, np.zeros_like(inside))
    assert offline == pytest.approx((own - others.mean(0)) / others.std(0, ddof=1))
    single = lira(own, others[:1], inside[:1] & False)
    assert np.isfinite(single).all()


def test_an_own_score_and_what_is_refused():
    canaries = Canaries(table(), 100, "as-they-are", seed=1)
    model = plain(canaries.train_set, epochs=1)
    found = canaries.audit(model, score=lambda model, records: torch.zeros(len(records)))
    assert found.epsilon_lower == 0
    with pytest.raises(CanaryError, match="one score for each of the 100 canaries"):
        canaries.audit(model, score=lambda model, records: torch.zeros(3))
    for option in ("score", "loss"):
        with pytest.raises(CanaryError, match=f"{option}: returned NoneType without numbers"):
            canaries.audit(model, **{option: lambda model, records: None})
    with pytest.raises(CanaryError, match="reduction='none'"):
        canaries.audit(model, loss=lambda model, batch: torch.zeros(()))
    with pytest.raises(CanaryError, match="not one of loss"):
        canaries.audit(model, score="magic")
    with pytest.raises(CanaryError, match="is for mislabelled"):
        canaries.audit(model, score="contrast")
    with pytest.raises(CanaryError, match="random-gradient"):
        canaries.audit(model, score="gradient")
    with pytest.raises(CanaryError, match="'lira' needs references="):
        canaries.audit(model, score="lira")
    with pytest.raises(CanaryError, match="'first' is not the number of a reference set"):
        canaries.audit(model, score="rmia", references={"first": network()})
    with pytest.raises(CanaryError, match="is not a number"):
        canaries.audit(model, -1.0)


def test_losses_of_language_models_are_means_over_known_tokens():
    class Model(torch.nn.Module):
        def forward(self, input_ids, attention_mask=None):
            logits = torch.nn.functional.one_hot(input_ids, 7).float()
            return type("Output", (), {"logits": logits})

    tokens = torch.tensor([[1, 1, 1, 1], [1, 2, 3, 4]])
    labels = torch.tensor([[1, 1, 1, 1], [1, 2, -100, -100]])
    same = math.log(6 + math.e) - 1
    losses = record_losses(Model(), {"input_ids": tokens, "labels": labels})
    assert losses.tolist() == pytest.approx([same, same + 1])


class Returning(torch.nn.Module):
    def __init__(self, returned):
        super().__init__()
        self.returned = returned

    def forward(self, logits):
        return self.returned(logits)


@pytest.mark.parametrize(
    "returned",
    [
        lambda logits: (logits, logits.sum()),
        lambda logits: {"features": 2 * logits, "logits": logits},
        lambda logits: {"scores": logits},
        lambda logits: logits.log_softmax(1),
        lambda logits: logits.softmax(1),
    ],
)
def test_losses_are_the_same_in_whatever_form_a_model_returns_its_logits(returned):
    batch = table(50).tensors
    expected = torch.nn.functional.cross_entropy(batch[0][:, :4], batch[1], reduction="none")
    losses = record_losses(Returning(returned), (batch[0][:, :4], batch[1]))
    assert losses.tolist() == pytest.approx(expected.tolist(), rel=1e-4)


def test_a_single_column_is_the_log_odds_of_two_classes():
    odds, labels = torch.tensor([[2.0], [2.0], [-1.0]]), torch.tensor([1, 0, 0])
    expected = [math.log1p(math.exp(x)) for x in (-2.0, 2.0, -1.0)]
    losses = record_losses(Returning(lambda x: x), (odds, labels))
    assert losses.tolist() == pytest.approx(expected)
    with pytest.raises(CanaryError, match="the model returns dict, not logits; give loss="):
        record_losses(Returning(lambda x: {"n": 3}), (odds, labels))


def test_what_the_audit_will_need_is_said_before_the_training():
    canaries = Canaries(table(), 50, seed=0)
    with pytest.warns(UserWarning, match="cannot be scored: .* pass the script's"):
        canaries.watch(torch.nn.Linear(3, 4))
    canaries.watch(network())


def test_inputs_are_scored_in_the_precision_of_the_model():
    inputs, labels = table().tensors
    canaries = Canaries(torch.utils.data.TensorDataset(inputs.double(), labels), 50, seed=0)
    model = network()
    expected = Scoring(list(canaries.records), None, collate, 7).scores(model.double(), "loss")
    assert expected.tolist() == pytest.approx(
        Scoring(list(canaries.records), None, collate, 7).scores(model.float(), "loss").tolist(),
        rel=1e-4,
    )


def test_scores_may_be_reversed_tied_or_nan():
    members = np.random.default_rng(0).random(400) < 0.5
    assert bound(members, members).epsilon_lower > 3
    assert bound(-1.0 * members, members).epsilon_lower == 0
    assert bound(np.zeros(400), members).epsilon_lower < 0.2
    lost = bound(np.where(members, np.nan, 1.0), members)
    assert lost.epsilon_lower == 0
    assert any("scores are NaN" in one for one in lost.warnings)
    infinite = bound(np.where(members, np.inf, -np.inf), members)
    assert infinite.epsilon_lower > 3


def test_one_canary_shows_nothing_and_coins_that_are_not_fair_are_refused():
    assert bound([1.0], [True], epsilon=1.0).verdict == "inconclusive"
    assert bound([1.0], [False]).epsilon_lower == 0
    for members in (np.ones(400), np.zeros(400)):
        with pytest.raises(dpframe.DpframeError, match="probability ½"):
            bound(np.arange(400.0), members)


def test_an_infinite_claim_is_not_tested():
    members = np.random.default_rng(0).random(50) < 0.5
    found = bound(members, members, epsilon=math.inf)
    assert found.verdict is None
    assert "ε = ∞" in found.warnings[0]


def test_the_record_is_shown_reported_and_drawn(folder, capsys):
    from typer.testing import CliRunner

    from dpframe.cli import app

    canaries = Canaries(table(), 100, seed=1, out="run")
    found = canaries.audit(plain(canaries.train_set, epochs=1), 2.0)
    assert (folder / "run" / "picture.svg").stat().st_size > 1_000

    def run(*arguments):
        answer = CliRunner().invoke(app, list(arguments))
        assert answer.exit_code == 0, answer.output
        return answer.output

    shown = run("show", "run")
    assert f"≥ {found.epsilon_lower:.3g}" in shown or "≥ 0" in shown
    assert "! the training was not watched" in shown
    assert "No number here says" in " ".join(shown.split())
    assert run("show", "run", "--json").startswith("{")
    for name in ("r.html", "r.md"):
        run("report", "run", "-o", name)
        assert "was not watched" in (folder / name).read_text()
    assert "<svg" in (folder / "r.html").read_text()
    run("plot", "run", "-o", "p.png")
    assert "<svg" in found._repr_html_()
    assert "was not watched" in found._repr_html_()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epsilon": "8"}, "epsilon: '8'"),
        ({"delta": 2.0}, r"delta: 2\.0 is not"),
        ({"batch": 0}, "batch: 0 is not"),
        ({"engine": "opacus"}, "engine: str has no accountant"),
    ],
)
def test_arguments_that_make_no_audit_are_refused_before_scoring(options, said):
    canaries = Canaries(table(), 9, out=None)
    with pytest.raises(CanaryError, match=said):
        canaries.audit(network(), score=lambda model, records: 1 / 0, **options)


def test_pages_of_another_librarys_message_are_cut():
    canaries = Canaries(table(), 9, out=None)

    def loss(model, batch):
        raise RuntimeError(
            f"clear the gradient of {list(range(99))} {list(range(999))}:\nand so on"
        )

    with pytest.raises(
        CanaryError, match=r"RuntimeError: clear the gradient of .* …. Is it"
    ) as found:
        canaries.audit(network(), loss=loss)
    assert len(str(found.value)) < 500
