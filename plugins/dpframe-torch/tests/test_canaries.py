"""Coins, kinds of canaries, the file of a run, and the contents of the training set."""

import json

import numpy as np
import pytest
import torch
from dpframe_torch import Canaries, CanaryError
from dpframe_torch.records import keys_of
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from torch_support import CLASSES, FEATURES, network, plain, table

FAR = 5.0
"""Standard deviations of a fair coin; beyond with probability below 1e-6."""


def coins(canaries):
    """Return the coins; only tests may see them."""
    return np.array([one == "1" for one in canaries.state["members"]])


def inputs_of(data):
    return {tuple(np.asarray(data[i][0]).ravel().tolist()) for i in range(len(data))}


@pytest.mark.parametrize("kind", ["mislabelled", "blank", "as-they-are", "random-gradient"])
def test_a_canary_is_in_the_training_set_if_its_coin_says_so(kind):
    data = table()
    canaries = Canaries(data, 100, kind, seed=3)
    members, train = coins(canaries), canaries.train_set
    extra = 0 if kind == "random-gradient" else 100
    assert len(train) == len(data) - extra + members.sum()
    given = inputs_of(train)
    inside = [tuple(record[0].tolist()) in given for record in canaries.records]
    assert inside == members.tolist()
    keys = {int(keys_of(record[0][None])) for record in canaries.records}
    assert len(keys) == 100, "canaries tell each other apart"


def test_coins_are_fair_and_independent_of_each_other():
    """Over 200 runs: every canary, and every pair of neighbours; false-alarm rate 1e-6 each."""
    data = table(50)
    runs = np.array(
        [coins(Canaries(data, 40, "as-they-are", seed=s, out=f"r{s}")) for s in range(200)]
    )
    assert abs(runs.mean() - 0.5) < FAR * 0.5 / runs.size**0.5
    agree = runs[:, 1:] == runs[:, :-1]
    assert abs(agree.mean() - 0.5) < FAR * 0.5 / agree.size**0.5
    each = np.abs(runs.sum(0) - 100) / 50**0.5
    assert each.max() < FAR + 1


def test_a_mislabelled_canary_has_a_wrong_label_and_the_input_of_a_record():
    data = table()
    canaries = Canaries(data, 50, seed=1)
    right = {tuple(x.tolist()): int(y) for x, y in data}
    for x, y in canaries.records:
        assert int(y) != right[tuple(x.tolist())]
        assert 0 <= int(y) < CLASSES


def test_own_records_are_added():
    own = table(30, seed=9)
    canaries = Canaries(table(), records=own, seed=2)
    assert canaries.number == 30
    assert len(canaries.train_set) == 400 + coins(canaries).sum()


def test_text_canaries_are_random_token_sequences():
    data = [{"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1], "labels": [1, 2, 3]}] * 20
    canaries = Canaries(data, 10, "text", vocabulary=50, length=8, seed=0)
    for record in canaries.records:
        assert len(record["input_ids"]) == len(record["attention_mask"]) == 8
        assert record["labels"] == record["input_ids"]
        assert max(record["input_ids"]) < 50


class Tokenizer:
    all_special_ids = (0, 1, 49)

    def __len__(self):
        return 50


def test_tokens_of_text_canaries_come_from_the_vocabulary():
    """By default the tokens in use, without padding; a tokenizer's without its special ones."""
    mask = [1] * 6 + [0] * 2
    data = [{"input_ids": [2, 3, 5, 7, 11, 13, 0, 0], "attention_mask": mask}] * 20

    def tokens(vocabulary, length=200):
        canaries = Canaries(data, 20, "text", vocabulary=vocabulary, length=length, out=None)
        return {token for record in canaries.records for token in record["input_ids"]}

    assert tokens(None) == {2, 3, 5, 7, 11, 13}
    assert tokens(50) == set(range(50))
    assert tokens([4, 4, 6]) == {4, 6}
    assert tokens(Tokenizer()) == set(range(2, 49))
    assert (
        len({*map(str, Canaries(data, 16, "text", vocabulary=4, length=2, out=None).records)}) == 16
    )


@pytest.mark.parametrize("vocabulary", [0, 1, -3, True, 2.5, [], [3], [-1, 4], "abc", {1, 2}])
def test_a_vocabulary_without_two_tokens_is_refused(vocabulary):
    with pytest.raises(CanaryError, match="no two different token ids"):
        Canaries([{"input_ids": [1, 2, 3]}] * 20, 5, "text", vocabulary=vocabulary, out=None)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("mislabelled", {"vocabulary": Tokenizer()}),
        ("blank", {"length": 8}),
        ("as-they-are", {"classes": 10}),
        ("random-gradient", {"vocabulary": np.arange(9)}),
        ("own", {"vocabulary": np.arange(9)}),
    ],
)
def test_an_argument_that_the_canaries_do_not_use_is_refused(kind, given):
    own = {"records": table(9, seed=9)} if kind == "own" else {"kind": kind}
    with pytest.raises(CanaryError, match=r"do not use it|they need no"):
        Canaries(table(), 5, out=None, **own, **given)
    tokens = [{"input_ids": [1, 2, 3]}] * 20
    with pytest.raises(CanaryError, match="classes: canaries of the kind 'text' do not use it"):
        Canaries(tokens, 5, "text", classes=3, out=None)


@pytest.mark.parametrize("kind", ["text", "random-gradient"])
def test_equal_token_sequences_are_refused(kind):
    with pytest.raises(CanaryError, match=r"20 canaries of the kind .* would not all differ"):
        Canaries([{"input_ids": [1, 2, 3]}] * 20, 20, kind, vocabulary=2, length=4, out=None)


class Language(torch.nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.places, self.tokens = torch.nn.Embedding(999, 4), torch.nn.Embedding(tokens, 4)
        self.head = torch.nn.Linear(4, tokens)

    def get_input_embeddings(self):
        return self.tokens

    def forward(self, input_ids):
        places = torch.arange(input_ids.shape[1])
        return self.head(self.tokens(input_ids) + self.places(places))


def test_tokens_that_the_model_does_not_know_are_refused_before_the_training():
    data = [{"input_ids": torch.arange(1, 9), "labels": torch.arange(1, 9)}] * 40
    canaries = Canaries(data, 20, "text", vocabulary=60, out=None)
    canaries.watch(Language(60))
    with pytest.raises(
        CanaryError, match=r"the token 5\d, but the model's embedding has 50 tokens"
    ):
        canaries.watch(Language(50))
    usual = torch.nn.Sequential(torch.nn.Embedding(50, 4), torch.nn.Flatten())
    with pytest.raises(CanaryError, match="pass vocabulary=50, or the tokenizer"):
        canaries.watch(usual)


@pytest.mark.parametrize("shape", [(12,), (3, 4)])
def test_whole_numbers_in_place_of_a_record_occur_there_in_the_data(shape):
    """Columns may have categories of their own; images of bytes keep their shape."""
    most = torch.arange(14, 2, -1).reshape(shape)  # of each place
    rows = (torch.rand(80, *shape) * most).to(torch.uint8)
    canaries = Canaries(TensorDataset(rows, torch.arange(80) % 4), 60, "random-gradient", seed=0)
    made = torch.stack([x for x, _ in canaries.records])
    assert made.dtype == torch.uint8
    assert made.shape == (60, *shape)
    assert (made < most).all()
    assert len(made.unique(dim=0)) == 60


def test_an_interrupted_run_goes_on_with_the_same_canaries_until_it_is_audited():
    data = table()
    first = Canaries(data, 60, out="run")
    again = Canaries(data, 60, out="run")
    assert (again.run, again.state) == (first.run, first.state)
    again.audit(plain(again.train_set, epochs=1))
    another = Canaries(data, 60, out="run")
    assert another.run != first.run
    assert another.state["members"] != first.state["members"]


def test_a_seed_gives_the_same_canaries_in_another_run():
    first, second = (Canaries(table(), 60, seed=4, out=out) for out in "ab")
    assert first.run != second.run
    assert first.state["members"] == second.state["members"]
    torch.manual_seed(4)
    np.random.default_rng(4)
    assert (np.random.default_rng(4).random(60) < 0.5).tolist() != coins(first).tolist()


def test_coins_of_another_number_or_kind_are_independent_although_the_seed_is_the_same():
    """False-alarm rate 1e-6 each."""
    of = {"out": None, "seed": 4}
    usual = coins(Canaries(table(), 300, **of))
    for other in [
        Canaries(table(), 301, **of),
        Canaries(table(), 300, "blank", **of),
        Canaries(table(), records=table(300, seed=9), **of),
    ]:
        agree = (usual == coins(other)[:300]).mean()
        assert abs(agree - 0.5) < FAR * 0.5 / 300**0.5


@pytest.mark.parametrize("changes", [{"number": 59}, {"kind": "blank"}, {"seed": 1}])
def test_an_unfinished_run_of_other_canaries_is_not_overwritten(changes):
    Canaries(table(), 60, out="run")
    with pytest.raises(CanaryError, match="contains a run that was not audited and has another"):
        Canaries(table(), **{"number": 60, **changes}, out="run")


def test_altered_coins_and_data_are_noticed(folder):
    file = folder / "run" / "canaries.json"
    Canaries(table(), 60, out="run")
    with pytest.raises(CanaryError, match="has other canaries"):
        Canaries(table(seed=1), 60, out="run")
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "members": "1" * 60}))
    with pytest.raises(CanaryError, match="was altered"):
        Canaries(table(), 60, out="run")
    file.write_text("[]")
    with pytest.raises(CanaryError, match="not the file of a run"):
        Canaries(table(), 60, out="run")


class Files(Dataset):
    """Records that are read anew at every access, as from files."""

    def __len__(self):
        return 300

    def __getitem__(self, i):
        draws = torch.Generator().manual_seed(i)
        return 255 * torch.rand(FEATURES, generator=draws), i % CLASSES


class InPlace(Dataset):
    """A transform that changes the records that it gets."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        x, y = self.data[i]
        return x.sub_(127.0).div_(74.0), y


@pytest.mark.parametrize("kind", ["mislabelled", "blank", "as-they-are", "own"])
def test_a_transform_in_place_does_not_change_the_canaries(kind):
    """It would change those that are in, and their scores would show the coins."""
    own = {"records": [Files()[i] for i in range(100)]} if kind == "own" else {"kind": kind}
    canaries = Canaries(Files(), 100, seed=0, **own)
    kept = torch.stack([x for x, _ in canaries.records]).clone()
    model = plain(InPlace(canaries.train_set), epochs=1, rate=1e-6, canaries=canaries)
    assert torch.equal(torch.stack([x for x, _ in canaries.records]), kept)
    assert canaries.audit(model, 1.0).verdict != "violated"


def test_canaries_share_nothing_with_the_data_or_with_what_collates_them():
    def collate(records):
        labels = torch.tensor([record.pop("y") for record in records])
        return {"x": torch.stack([record.pop("x") for record in records]), "y": labels}

    def loss(model, batch):
        return torch.nn.functional.cross_entropy(model(batch["x"]), batch["y"], reduction="none")

    data = [{"x": x.clone(), "y": int(y)} for x, y in table()]
    canaries = Canaries(data, 50, "as-they-are", seed=0)
    model, references = network(), {0: network()}
    before = canaries.audit(model, loss=loss, collate=collate, references=references)
    for record in data:
        record["x"].zero_()
    list(DataLoader(canaries.train_set, 40, collate_fn=collate))
    after = canaries.audit(model, loss=loss, collate=collate, references=references)
    assert before["scores"] == after["scores"]


def test_changed_records_of_canaries_are_refused():
    canaries = Canaries(table(), 60, seed=0)
    model = plain(canaries.train_set, epochs=1)
    canaries.train_set.inside[int(np.flatnonzero(coins(canaries))[0])][0].add_(1.0)
    with pytest.raises(CanaryError, match=r"records changed after .* change copies .* train again"):
        canaries.audit(model)


def test_coins_are_hidden_until_the_audit():
    canaries = Canaries(table(), 60, seed=0)
    with pytest.raises(CanaryError, match="until the audit"):
        _ = canaries.members
    canaries.audit(plain(canaries.train_set, epochs=1))
    assert canaries.members.tolist() == coins(canaries).tolist()


def test_attributes_that_would_not_match_are_refused():
    canaries = Canaries(table(), 60, seed=0)
    with pytest.raises(AttributeError, match="indices"):
        _ = canaries.train_set.tensors
    with pytest.raises(AttributeError):
        _ = canaries.train_set.nothing_of_the_kind


ROWS = torch.zeros(20, 3)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([])


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (Stream(), {}, "not a stream"),
        (table(20), {"number": 21}, "21 canaries, but the data have 20"),
        (table(20), {"number": 0}, "at least 1"),
        (table(20), {"number": 5, "kind": "odd"}, "is not one of"),
        (table(20), {"number": 5, "classes": 1}, "at least two classes"),
        (table(20), {"number": 5, "kind": "text"}, "token ids"),
        ([([1, 2], 0)] * 20, {"number": 5, "kind": "text", "length": -1}, "number of tokens"),
        (table(20), {"records": iter(table(3))}, "no length; pass a list"),
        (table(20), {"records": [ROWS[0]]}, "a canary is Tensor, a record .* a sequence of 2"),
        ([{"x": 1, "y": 0}] * 20, {"records": [{"x": 1}]}, "a mapping with x, a record .* x, y"),
        (table(20), {"number": 5, "out": __file__}, "cannot be a folder of runs"),
        ([3.0] * 20, {"number": 5}, r"\(input, label\)"),
        ([(torch.zeros(FEATURES), 0.5)] * 20, {"number": 5}, "one whole number"),
        ([(torch.zeros(FEATURES),)] * 20, {"number": 5}, "need records with a label"),
        ([("a word", 1), ("b", 0)] * 20, {"number": 5, "kind": "blank"}, "tensors or arrays"),
    ],
)
def test_what_cannot_be_used_is_refused(data, options, message):
    with pytest.raises(CanaryError, match=message):
        Canaries(data, **options)


def test_keys_do_not_depend_on_the_batch_or_on_padding():
    rows = torch.randn(50, FEATURES)
    rows[0, 0] = -0.0
    alone = torch.cat([keys_of(one[None].contiguous()) for one in rows])
    assert torch.equal(alone, keys_of(rows))
    tokens = torch.randint(9, (5, 7))
    padded = torch.cat([tokens, torch.full((5, 3), 6)], 1)
    mask = (torch.arange(10) < 7).expand(5, -1)
    assert torch.equal(keys_of(padded, mask), keys_of(tokens))
    assert not torch.equal(keys_of(padded), keys_of(tokens))
    changed = rows.clone()
    changed[3, 2] = torch.nextafter(changed[3, 2], torch.tensor(9.0))
    assert (keys_of(changed) == keys_of(rows)).tolist() == [i != 3 for i in range(50)]


def test_coins_that_were_audited_before_are_named(tmp_path):
    """A script can read the coins after an audit, and two scripts can share a folder."""
    first, second = (Canaries(table(), 50, out=tmp_path) for _ in range(2))
    model = plain(first.train_set, epochs=1)
    assert not any("audited before" in one for one in first.audit(model).warnings)
    members = torch.tensor(first.members)
    peeked = first.audit(model, score=lambda model, records: members * 1.0)
    assert peeked.epsilon_lower > 1
    assert any("audited before, 1 time:" in one for one in peeked.warnings)
    assert first.audit(model).warnings == second.audit(model).warnings  # no new look
    (other,) = [
        one for one in second.audit(model, score="loss").warnings if "audited before" in one
    ]
    assert "2 times" in other
    assert "another process" in other
    (tmp_path / "canaries.json").write_text("{")
    assert any("audited before" in one for one in second.audit(model, score="loss").warnings)


def test_reruns_with_the_same_seed_are_named():
    """They toss the same coins, also if a run with other coins came between."""

    def warned(seed):
        canaries = Canaries(table(), 50, seed=seed)
        found = canaries.audit(plain(canaries.train_set, epochs=1)).warnings
        return [one for one in found if "audited before" in one]

    assert warned(1) == []
    (again,) = warned(1)
    assert "1 time:" in again
    assert "leave out seed=" in again
    assert warned(2) == []
    assert "2 times:" in warned(1)[0]


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (TensorDataset(ROWS[:0], ROWS[:0, 0]), {"records": [(ROWS[0], 0)]}, "it is empty"),
        (table(), {"seed": 1.5}, "seed: 1.5"),
        (table(), {"seed": -1}, "seed: -1"),
        (TensorDataset(ROWS, torch.arange(20) - 1), {}, "need labels from 0"),
        (DataLoader(table()), {}, "pass its dataset"),
        ((ROWS, ROWS[:, 0].long()), {}, "pass TensorDataset"),
        ({f"column {n}": ROWS for n in range(20)}, {}, "dict has no record .0. .KeyError"),
    ],
)
def test_data_that_cannot_have_canaries_are_refused(data, options, said):
    with pytest.raises(CanaryError, match=said):
        Canaries(data, 20, out=None, **options)


def test_what_cannot_be_watched_is_refused():
    words = Canaries([("some text", 1), ("other", 0)] * 20, 5, out=None)
    with pytest.raises(CanaryError, match="the tokenizer, into the training set"):
        words.watch(network())
    canaries, model = Canaries(table(), 5, out=None), network()
    with pytest.raises(CanaryError, match=r"list is not a torch\.optim\.Optimizer"):
        canaries.watch(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    with pytest.raises(CanaryError, match="on the meta device"):
        canaries.watch(network().to("meta"))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (network().state_dict(), "load a state_dict into a model"),
        (network().to("meta"), "on the meta device"),
        (torch.nn.Linear(12, 2), "IndexError: .* the model that was trained on these records"),
        (torch.nn.Linear(99, 4), "RuntimeError: .* pass the script's collate= and loss="),
    ],
)
def test_models_that_cannot_be_scored_are_refused(model, said):
    with pytest.raises(CanaryError, match=said):
        Canaries(table(), 50, seed=0, out=None).audit(model)


def test_the_audited_model_is_no_reference():
    model = network()
    with pytest.raises(CanaryError, match="the audited model itself"):
        Canaries(table(), 9, out=None).audit(model, score="lira", references={0: model})
