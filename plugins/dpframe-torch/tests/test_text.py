"""Text canaries: exposure and extraction against naive oracles, and what chance makes of them."""

import json
import math
import zlib

import numpy as np
import pytest
import torch
from dpframe_torch import CanaryError, TextCanaries
from dpframe_torch.text import chance, exposures, suffix_losses
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from torch_support import language

TEXTS = language.corpus()
some_scores = st.sampled_from([math.nan, -math.inf, -1.0, 0.0, 2.0, math.inf])


def canaries(number=30, texts=TEXTS, seed=0, **options):
    options = {"length": 4, "references": 15, "out": None, **options}
    return TextCanaries(texts, number, seed=seed, **options)


@pytest.fixture(scope="module")
def memorised():
    """Canaries, and a model that has learnt its training set by heart."""
    torch.set_num_threads(1)
    one = canaries()
    return one, language.trained(list(one.train_set))


@given(
    hnp.arrays(np.float64, 4, elements=some_scores),
    hnp.arrays(np.float64, (4, 5), elements=some_scores),
)
def test_an_exposure_is_a_rank_in_bits(own, others):
    for score, row, bits in zip(own, others, exposures(own, others), strict=True):
        rank = 1 + sum(not other < score for other in row)  # ties and NaN count against it
        assert bits == pytest.approx(math.log2(6 / rank))


@pytest.mark.parametrize("n", [1, 2, 63, 2_000])
def test_without_a_leak_each_rank_is_as_likely(n):
    bits = [math.log2((n + 1) / rank) for rank in range(1, n + 2)]
    assert chance(n) == pytest.approx((np.median(bits), np.mean(bits)))
    assert chance(n)[1] <= math.log2(math.e)
    assert chance(100_000) == pytest.approx((1, math.log2(math.e)), abs=1e-3)


def test_what_a_model_remembers_is_bounded_exposed_and_extracted(memorised):
    one, model = memorised
    audit = one.audit(model, 0.1, 1e-5, tokenizer=language.tokenizer)
    inside = int(one.members.sum())
    assert audit.epsilon_lower > 1
    assert audit.verdict == "violated"
    text = audit["text"]
    assert text["exposure"]["in"] == {"median": 4.0, "mean": 4.0, "largest": 4.0}
    assert text["at_most"] == 4.0
    assert text["exposure"]["out"]["mean"] < chance(15)[1] + 1
    assert text["extracted"] == {"in": [inside, inside], "out": [0, 30 - inside]}
    shown = " ".join(str(audit).split())
    assert "Exposure of canaries in the training set median 4, mean 4, largest 4 bits" in shown
    assert f"returns the suffix of {inside} of {inside} canaries in the training set" in shown
    assert "Exposure and extraction are not bounds" in shown
    assert shown.index("ε ≥") < shown.index("Exposure of canaries")


def test_any_function_of_texts_gives_the_same(memorised):
    first, model = memorised
    by_model = first.audit(model, tokenizer=language.tokenizer)
    one = canaries()
    generate = language.greedy(model, 4)
    audit = one.audit(loss=language.total_loss(model), generate=generate, batch=100)
    assert audit["text"] == by_model["text"]
    assert audit.scores["score"] == pytest.approx(by_model.scores["score"], rel=1e-3)
    assert canaries().audit(loss=language.total_loss(model))["text"]["extracted"] is None


def test_generated_texts_may_begin_with_their_prefix(memorised):
    _, model = memorised
    decode = language.greedy(model, 4)

    def whole(prefixes):
        return [a + b for a, b in zip(prefixes, decode(prefixes), strict=True)]

    one = canaries()
    audit = one.audit(loss=language.total_loss(model), generate=whole)
    inside = int(one.members.sum())
    assert audit["text"]["extracted"] == {"in": [inside, inside], "out": [0, 30 - inside]}


def test_a_negated_loss_is_named(memorised):
    _, model = memorised
    total = language.total_loss(model)
    negated = canaries().audit(loss=lambda texts: [-float(one) for one in total(texts)])
    assert negated.epsilon_lower == 0
    assert "If it is a log-likelihood, return minus it." in negated["beside"][-1]
    assert "log-likelihood" not in str(canaries().audit(loss=total))


@pytest.mark.parametrize("steps", [0, 30])
def test_losses_and_extraction_agree_with_one_letter_at_a_time(steps):
    texts = ["the cat", "the 12", "the a", "on a mat"]
    model = language.trained(["the cat", "on a mat", "the 1"], steps=steps)
    prefixes = ["the ", "the ", "the ", "on "]
    losses, returned = suffix_losses(model, language.tokenizer, prefixes, texts, 2)
    for text, prefix, loss, found in zip(texts, prefixes, losses, returned, strict=True):
        ids, expected, same = language.tokenizer(text)["input_ids"], 0.0, True
        for at in range(len(prefix), len(ids)):
            logits = model(torch.tensor([ids[:at]]))[0, -1].detach()
            expected -= float(logits.log_softmax(0)[ids[at]])
            same = same and int(logits.argmax()) == ids[at]
        assert loss == pytest.approx(expected, rel=1e-4)
        added = language.greedy(model, len(text) - len(prefix))([prefix])[0]
        assert found == same == (added == text[len(prefix) :])


class WithEnd:
    """A tokenizer that ends each text with a special token, and returns plain lists."""

    all_special_ids = (len(language.LETTERS) - 1,)

    def __call__(self, text):
        return [*language.tokenizer(text)["input_ids"], *self.all_special_ids]


def test_special_tokens_at_the_end_are_no_part_of_a_suffix(memorised):
    _, model = memorised
    given = ["on ", "on "], ["on a", "on 77"]
    plain = suffix_losses(model, language.tokenizer, *given, 8)
    ended = suffix_losses(model, WithEnd(), *given, 8)
    assert plain[0] == pytest.approx(ended[0])
    assert plain[1].tolist() == ended[1].tolist()


def noise(seed):
    """Return a loss that no training has changed: a number that is fixed for each text."""

    def loss(texts):
        return [np.random.default_rng([seed, zlib.crc32(t.encode())]).normal() for t in texts]

    return loss


@pytest.mark.parametrize("runs", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_canaries_that_were_never_trained_on_show_chance(runs):
    """Each count and mean fails with a probability below 1e-6 if the losses ignore the coins."""
    violated, bits = 0, {"in": [], "out": []}
    for seed in range(runs):
        one = canaries(60, seed=seed, references=7)
        audit = one.audit(None, 0.01, 1e-5, loss=noise(seed))
        violated += audit.verdict == "violated"
        assert audit["text"]["extracted"] is None
        for side, of in audit["text"]["exposure"].items():
            members = one.members if side == "in" else ~one.members
            bits[side].append((of["mean"], int(members.sum())))
    assert violated <= stats.binom.isf(1e-6, runs, 0.05)
    each = np.log2(8 / np.arange(1, 9))
    for side in bits.values():
        means, numbers = np.array(side).T
        mean = np.average(means, weights=numbers)
        allowed = 5 * each.std() / math.sqrt(numbers.sum())
        assert abs(mean - chance(7)[1]) < allowed


def test_infinite_losses_and_nan_count_against_a_canary():
    one = canaries(40)

    def loss(texts):
        # The model diverged on half of the canaries, and on no other text.
        places = {record: place for place, record in enumerate(one.records)}
        return [(math.nan, math.inf, 0.0, 1.0)[places.get(text, 3) % 4] for text in texts]

    audit = one.audit(loss=loss)
    assert any("scores are NaN" in warning for warning in audit.warnings)
    for side, members in (("in", one.members), ("out", ~one.members)):
        bits = [(0.0, 0.0, 4.0, 0.0)[place % 4] for place in np.flatnonzero(members)]
        assert audit["text"]["exposure"][side]["mean"] == pytest.approx(np.mean(bits))


def test_a_model_that_was_trained_without_canaries_shows_chance():
    """Exposures are above the allowed mean with a probability below 1e-6."""
    one = canaries(60)
    audit = one.audit(language.trained(TEXTS), 0.1, 1e-5, tokenizer=language.tokenizer)
    assert audit.verdict == "inconclusive"  # not watched
    each = np.log2(16 / np.arange(1, 17))
    for side in audit["text"]["exposure"].values():
        assert abs(side["mean"] - chance(15)[1]) < 5 * each.std() / math.sqrt(20)
    assert audit["text"]["extracted"]["out"][0] == 0


def test_a_watched_training_is_not_doubted_and_lost_canaries_are_noticed():
    one = canaries(200, seed=1)
    model = language.trained(list(one.train_set), 10, canaries=one, tokenizer=language.tokenizer)
    audit = one.audit()  # the watched model
    assert audit.warnings == []
    assert audit["training"]["watched"] is not None
    assert audit["text"]["extracted"] is not None
    assert model.training
    lost = canaries(200, seed=1)
    language.trained(TEXTS, 10, canaries=lost, tokenizer=language.tokenizer)
    assert any("canaries" in warning for warning in lost.audit().warnings)


def test_a_folder_keeps_canaries_of_an_interrupted_script_and_the_report(tmp_path):
    first = canaries(20, seed=None, out=tmp_path)
    again = canaries(20, seed=None, out=tmp_path)
    assert first.records == again.records
    assert list(first.train_set) == list(again.train_set)
    again.audit(loss=noise(0))
    kept = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert kept["text"]["at_most"] == 4.0
    assert "not bounds" in kept["beside"][-1]
    assert canaries(20, seed=None, out=tmp_path).records != first.records


def test_canaries_are_texts_with_their_prefix_and_suffixes_of_the_alphabet():
    options = {"alphabet": [" red", " blue"], "prefix": "{}: my colours are"}
    one = canaries(5, **options, length=2, references=3)
    for number, (record, suffix) in enumerate(zip(one.records, one.suffixes, strict=True)):
        assert record == f"{number}: my colours are{suffix}"
        assert set(suffix.split()) <= {"red", "blue"}
    texts = list(one.train_set)
    assert all(text in texts for text in TEXTS)
    assert len(texts) == len(TEXTS) + int(one._members.sum())
    assert canaries(2, prefix=["a", "b"]).records[1].startswith("b")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphabet": "a"}, "alphabet: needs two"),
        ({"alphabet": "aab"}, "alphabet: needs two"),
        ({"prefix": ""}, "prefix: each of the 30"),
        ({"prefix": ["a"]}, "prefix: each of the 30"),
        ({"length": 0}, "length: 0"),
        ({"references": True}, "references: True"),
        ({"texts": [("a", 1)]}, "records: a canary is str"),
        ({"texts": []}, "it is empty"),
        ({"length": 1}, "references: 15 suffixes cannot differ from a canary's own, because there"),
        ({"texts": [*TEXTS, *canaries().records[3:5]]}, "texts: 2 of the canaries are among them"),
    ],
)
def test_what_cannot_be_a_canary(options, message):
    with pytest.raises(CanaryError, match=message):
        canaries(**options)


def test_what_cannot_be_scored():
    one = canaries()
    model = language.Model()
    with pytest.raises(CanaryError, match="pass the model and its tokenizer="):
        one.audit(model)
    with pytest.raises(CanaryError, match="tokenizer: watch needs it"):
        one.watch(model)
    with pytest.raises(CanaryError, match="loss: returned shape"):
        one.audit(loss=lambda texts: 0.0)
    for made, name in ((None, "NoneType"), ([None] * 8, "list"), ("text", "str")):
        with pytest.raises(CanaryError, match=f"loss: returned {name} without numbers"):
            one.audit(loss=lambda texts, made=made: made)
    for made in ([], None, [None] * 30, "t" * 30, torch.zeros(30)):
        with pytest.raises(CanaryError, match="generate: must return a text for each prefix"):
            one.audit(loss=noise(0), generate=lambda prefixes, made=made: made)
    for tokenizer in (lambda text: {"ids": [1]}, lambda text: text, lambda text: []):
        with pytest.raises(CanaryError, match="tokenizer: "):
            one.audit(model, tokenizer=tokenizer)
    with pytest.raises(CanaryError, match="no tokens beyond"):
        one.audit(model, tokenizer=lambda text: [1, 2])
    assert not one.state["audited"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning:transformers")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:transformers")
def test_a_model_of_hugging_face_with_its_tokenizer():
    """Its tokens are longer than letters, and greedy decoding by its own `generate` agrees."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    one = canaries(24, length=6)
    letters = Tokenizer(models.BPE())
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    letters.train_from_iterator(
        TEXTS, trainers.BpeTrainer(special_tokens=["<eos>"], initial_alphabet=alphabet)
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=letters, eos_token="<eos>", pad_token="<eos>"
    )
    size = {"n_positions": 32, "n_embd": 48, "n_layer": 2, "n_head": 2}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=len(tokenizer), **size, **ends)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    one.watch(model, optimizer, tokenizer)
    batch = tokenizer(list(one.train_set), padding=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    model.train()
    for _ in range(90):
        optimizer.zero_grad()
        labels = ids.masked_fill(mask == 0, -100)
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        optimizer.step()
    audit = one.audit(model.eval())
    assert audit.warnings == []
    assert audit.epsilon_lower > 0
    text = audit["text"]
    assert text["exposure"]["in"]["mean"] > 3
    assert text["extracted"]["in"][0] > 0
    extracted = 0
    for prefix, suffix in zip(one.prefixes, one.suffixes, strict=True):
        given = tokenizer(prefix, return_tensors="pt")
        added = model.generate(**given, max_new_tokens=6, do_sample=False)[0]
        extracted += tokenizer.decode(added) == prefix + suffix
    assert extracted == sum(text["extracted"][side][0] for side in ("in", "out"))
