"""Common mistakes of real scripts cause a warning or an error; a correct script causes none."""

import io

import numpy as np
import pytest
import torch
from dpframe_torch import Canaries, CanaryError
from dpframe_torch.findings import _of_other_parameters
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, Subset, random_split
from torch_support import DELTA, Noisy, Script, network, plain, private_step, table

FEW = {"epochs": 2}


def audited(canaries, data=None, **options):
    model = plain(canaries.train_set if data is None else data, canaries=canaries, **options)
    return canaries.audit(model, 3.0)


def test_a_correct_script_gets_no_warning():
    canaries = Canaries(table(), 100, seed=0)
    found = Script(canaries).train(3).audit()
    assert found.warnings == []
    assert found["training"]["watched"]["steps"] == 3 * len(DataLoader(canaries.train_set, 40))
    assert 0.95 < found["training"]["watched"]["noise"]["ratio"] < 1.05


def test_batches_of_every_size_in_which_all_records_come_equally_often_are_not_poisson():
    canaries = Canaries(table(), 100, seed=0)
    sizes, places = np.random.default_rng(0).binomial(350, 0.1, 200), []
    order = np.random.default_rng(1)
    batches = []
    for size in sizes:
        while len(places) < size:
            places += order.permutation(len(canaries.train_set)).tolist()
        batches.append(places[:size])
        places = places[size:]
    script = Script(canaries)
    script.train(1, loader=DataLoader(canaries.train_set, batch_sampler=batches))
    assert any("about equally often" in one for one in script.audit().warnings)


def test_drop_last_is_named():
    canaries = Canaries(table(), 100, seed=0)
    assert len(canaries.train_set) % 40
    warnings = audited(canaries, epochs=5, drop_last=True).warnings
    assert any("drop_last leaves out the rest" in one for one in warnings)


def test_a_subset_that_leaves_canaries_out_is_named():
    canaries = Canaries(table(), 100, seed=0)
    warnings = audited(canaries, Subset(canaries.train_set, range(150)), epochs=8).warnings
    assert any("that are in were never trained on" in one for one in warnings)


def test_a_random_split_is_named_after_two_epochs():
    canaries = Canaries(table(2_000), 600, seed=0)
    kept = int(0.8 * len(canaries.train_set))
    part, _ = random_split(canaries.train_set, [kept, len(canaries.train_set) - kept])
    warnings = audited(canaries, part, epochs=2).warnings
    assert any("that are in were never trained on" in one for one in warnings)


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_whole_loader_leaves_no_canary_out_in_two_epochs(drop_last):
    canaries = Canaries(table(2_000), 600, seed=0)
    found = audited(canaries, epochs=2, drop_last=drop_last).warnings
    assert not any("never trained on" in one for one in found)


def test_indices_of_the_original_data_are_refused_in_words():
    data = table()
    canaries = Canaries(data, 100, seed=0)
    part = Subset(canaries.train_set, range(len(data)))
    with pytest.raises(IndexError, match=r"has no record 3\d\d.*range\(len\(canaries.train_set"):
        list(DataLoader(part, 40))
    assert len(list(canaries.train_set)) == len(canaries.train_set)


def test_an_augmentation_that_changes_canaries_is_named():
    canaries = Canaries(table(), 100, seed=0)
    warnings = audited(canaries, Noisy(canaries.train_set), **FEW).warnings
    assert any("no canary was recognised" in one and "augmentation" in one for one in warnings)


class Flipped(Noisy):
    """An augmentation that leaves half of the records as they are."""

    def __getitem__(self, i):
        x, y = self.data[i]
        return (x.flip(0) if torch.rand(()) < 0.5 else x), y


def test_an_augmentation_that_changes_some_canaries_is_named():
    canaries = Canaries(table(), 100, seed=0)
    found = audited(canaries, Flipped(canaries.train_set), epochs=5).warnings
    assert any("times were expected: an augmentation" in one for one in found)


def test_weights_of_another_training_are_named():
    """A new model with an earlier checkpoint, one of another run, and a file that names no run."""
    canaries = Canaries(table(), 100, seed=0)
    model = plain(canaries.train_set, canaries=canaries, epochs=1)
    early = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = canaries.watched.optimizer
    for x, y in DataLoader(canaries.train_set, batch_size=40):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    def named(audited):
        return [one for one in canaries.audit(audited).warnings if "may not be those" in one]

    copy = network()
    copy.load_state_dict(model.state_dict())
    assert named(model) == named(copy) == []
    copy.load_state_dict(early)
    assert "weights differ" in named(copy)[0]
    assert "weights differ" in named(plain(table(seed=9), epochs=1))[0]
    model.load_state_dict(early)
    assert "does not name its run" in named(model)[0]


def test_validation_data_that_were_trained_on_are_named():
    data, validation = table(), table(50, seed=5)
    canaries = Canaries(data, 100, seed=0, held_out=validation)
    assert not any("held_out" in one for one in audited(canaries, **FEW).warnings)
    canaries = Canaries(data, 100, seed=0, held_out=validation)
    both = torch.utils.data.ConcatDataset([canaries.train_set, validation])
    warnings = audited(canaries, both, **FEW).warnings
    assert any("held_out were trained on, 100 times" in one for one in warnings)


def test_another_batch_size_than_that_which_is_accounted_for_is_named():
    canaries = Canaries(table(), 100, seed=0)
    script = Script(canaries)
    sampler = torch.utils.data.BatchSampler(
        torch.utils.data.RandomSampler(canaries.train_set), 80, drop_last=False
    )
    script.train(6, loader=DataLoader(canaries.train_set, batch_sampler=sampler))
    warnings = script.audit().warnings
    assert any("expected_batch_size" in one for one in warnings)
    assert any("accountant assumed batches of" in one for one in warnings)


def test_gradient_accumulation_by_opacus_is_understood():
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    canaries = Canaries(table(), 100, "random-gradient", seed=0)
    script = Script(canaries)
    with BatchMemoryManager(
        data_loader=script.loader, max_physical_batch_size=16, optimizer=script.optimizer
    ) as loader:
        script.train(4, loader=loader)
    found = script.audit()
    assert found.warnings == []
    assert found["training"]["watched"]["steps"] == 4 * len(script.loader)


def test_the_wrong_checkpoint_is_refused_or_named():
    canaries = Canaries(table(), 100, seed=0)
    model, other = network(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    canaries.watch(model, optimizer)
    with pytest.raises(CanaryError, match="before the training"):
        canaries.audit(model)
    states = []
    for x, y in DataLoader(canaries.train_set, batch_size=40):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        states.append({k: v.clone() for k, v in model.state_dict().items()})
        torch.save(model.state_dict(), f"step-{len(states)}.pt")
    model.load_state_dict(torch.load("step-3.pt", weights_only=True))
    assert any("after step 3 of" in one for one in canaries.audit(model).warnings)
    elsewhere = Canaries(table(), 100, seed=1, out="elsewhere")
    elsewhere.watch(other)
    torch.save(other.state_dict(), "other.pt")
    model.load_state_dict(torch.load("other.pt", weights_only=True))
    with pytest.raises(CanaryError, match=f"those of run {elsewhere.run}"):
        canaries.audit(model)


def saved(model):
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.getvalue()


def test_a_training_that_goes_on_in_another_process_gets_no_false_warning():
    first = Script(Canaries(table(), 100)).train(1)
    second = Script(Canaries(table(), 100))  # the same coins, as after an interruption
    assert second.canaries.run == first.canaries.run
    second.canaries.watch(second.model, second.optimizer)
    kept = torch.load(io.BytesIO(saved(first.model)), weights_only=True)
    second.model.load_state_dict(kept)
    second.engine.accountant.history = list(first.engine.accountant.history)
    (warning,) = second.train(2, watch=False).audit().warnings
    made = len(first.loader)
    assert f"{made} of {3 * made} steps were made by an earlier process" in warning


@pytest.mark.parametrize(
    ("later", "verdict"), [(0, "inconclusive"), (2, "inconclusive"), (3, "consistent")]
)
def test_steps_of_an_earlier_process_are_consistent_only_if_at_least_half_were_watched(
    later, verdict
):
    """The earlier process trained on other data; the later one trains on the canaries."""
    first = Canaries(table(), 100)
    model = plain(table(seed=9), canaries=first, epochs=2, rate=1e-3)
    canaries, resumed = Canaries(table(), 100), network()
    optimizer = torch.optim.SGD(resumed.parameters(), lr=0.01)
    canaries.watch(resumed, optimizer)
    resumed.load_state_dict(torch.load(io.BytesIO(saved(model)), weights_only=True))
    for x, y in [*DataLoader(canaries.train_set, 40)] * later:
        private_step(resumed, optimizer, x, y)
    found = canaries.audit(resumed, 1.0)
    assert found.verdict == verdict
    assert any("steps were made by an earlier process" in one for one in found.warnings)
    if verdict == "inconclusive":
        assert "steps were made by an earlier process" in found["rows"][0]["reason"]


def test_gradient_canaries_are_audited_in_the_process_that_trained():
    script = Script(Canaries(table(), 100, "random-gradient")).train(1)
    later = Script(Canaries(table(), 100, "random-gradient"))
    later.canaries.watch(later.model, later.optimizer)
    later.model.load_state_dict(script.model.state_dict())
    with pytest.raises(CanaryError, match="train and audit in one process"):
        later.audit()


def test_a_second_optimiser_of_the_same_model_goes_on_with_the_observations():
    script = Script(Canaries(table(), 100, "random-gradient", seed=0)).train(2)
    scores = script.canaries.watched.gradients.scores()
    found = script.train(1).audit()  # watches again
    assert found.warnings == []
    assert found["training"]["watched"]["steps"] == 3 * len(script.loader)
    assert np.corrcoef(scores, script.canaries.watched.gradients.scores())[0, 1] > 0.5


def test_a_training_that_was_not_seen_is_named():
    canaries = Canaries(table(), 100, seed=0)
    model = network().eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    canaries.watch(model, optimizer)
    unused = Canaries(table(), 100, seed=1, out="unused")
    unused.watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in DataLoader(canaries.train_set, batch_size=40):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert any("no batch in train mode" in one for one in canaries.audit(model).warnings)
    assert any("optimiser made no step" in one for one in unused.audit(model).warnings)


def test_ghost_clipping_is_refused_for_gradient_canaries():
    """No gradients of single records exist, so no canary could be inserted."""
    canaries = Canaries(table(), 100, "random-gradient", seed=0)
    plain_model = network()
    model, optimizer, criterion, loader = PrivacyEngine().make_private(
        module=plain_model,
        optimizer=torch.optim.SGD(plain_model.parameters(), lr=0.5),
        criterion=torch.nn.CrossEntropyLoss(),
        data_loader=DataLoader(canaries.train_set, batch_size=40),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        grad_sample_mode="ghost",
    )
    canaries.watch(model, optimizer)
    x, y = next(iter(loader))
    criterion(model(x), y).backward()
    with pytest.raises(CanaryError, match="as with ghost clipping, so no canary was inserted"):
        optimizer.step()


def test_noise_that_is_missing_wrong_or_repeated_is_named(monkeypatch):
    """Deviations of the noise in 512 coordinates of every step; false-alarm rate 1e-8."""
    from opacus.optimizers import optimizer as opacus

    real = opacus._generate_noise

    def warnings(planted, noise=1.0):
        monkeypatch.setattr(opacus, "_generate_noise", planted)
        canaries = Canaries(table(), 100, seed=0, out=f"run{id(planted)}")
        script = Script(canaries, noise=noise).train(3)
        return canaries.audit(script.model, 5.0, DELTA).warnings

    def halved(std, **options):
        return real(std / 2, **options)

    def silent(std, reference, **options):
        return torch.zeros_like(reference)

    def repeated(std, reference, **options):
        draws = torch.Generator().manual_seed(1)
        return std * torch.randn(reference.shape, generator=draws)

    assert warnings(real) == []
    assert any("0.5 times the standard deviation" in one for one in warnings(halved))
    assert any("released without noise" in one for one in warnings(silent))
    assert any("is reseeded" in one for one in warnings(repeated))
    monkeypatch.setattr(opacus, "_generate_noise", real)
    canaries = Canaries(table(), 100, seed=0, out="zero")
    script = Script(canaries, noise=0.0).train(1)
    assert any("adds no noise" in one for one in canaries.audit(script.model).warnings)


def test_half_precision_and_train_mode_are_named():
    canaries = Canaries(table(), 100, seed=0)
    model = plain(canaries.train_set, epochs=1)
    half = torch.nn.Sequential(*model, torch.nn.Dropout(0.5)).bfloat16()

    def loss(model, batch):
        logits = model(batch[0].bfloat16()).float()
        return torch.nn.functional.cross_entropy(logits, batch[1], reduction="none")

    warnings = canaries.audit(half, loss=loss, score="loss").warnings
    assert any("half precision (bfloat16)" in one for one in warnings)
    assert any("train mode" in one for one in warnings)
    assert half.training


def test_a_model_in_half_precision_gets_its_inputs_in_half_precision():
    canaries = Canaries(table(), 100, seed=0)
    model = plain(canaries.train_set, epochs=1)
    whole = canaries.audit(model, score="loss")
    half = canaries.audit(model.bfloat16(), score="loss")
    assert any("half precision (bfloat16)" in one for one in half.warnings)
    assert half.epsilon_lower <= whole.epsilon_lower + 1


def test_gradients_that_do_not_fit_the_batches_are_refused():
    canaries = Canaries(table(), 100, "random-gradient", seed=0)
    script = Script(canaries)
    canaries.watch(script.model, script.optimizer)
    x, y = next(iter(script.loader))
    torch.nn.functional.cross_entropy(script.model(x), y).backward()
    canaries.watched.pending *= 2
    with pytest.raises(CanaryError, match=r"call model.eval\(\)"):
        script.optimizer.step()
    with pytest.raises(CanaryError, match="need Opacus"):
        plain(canaries.train_set, canaries=Canaries(table(), 9, "random-gradient", out="b"))
    with pytest.raises(CanaryError, match="need as many parameters"):
        Script(Canaries(table(), 300, "random-gradient", out="c"), width=2).train()


def test_a_claim_below_what_the_accountant_counted_is_named():
    canaries = Canaries(table(), 100, seed=0)
    script = Script(canaries).train(2)
    found = canaries.audit(script.model, 0.5, DELTA, engine=script.engine)
    assert any("0.5 is claimed, but" in one for one in found.warnings)
    assert found.verdict == "inconclusive"
    extra = Script(Canaries(table(), 100, seed=0, out="more")).train(2)
    extra.engine.accountant.history = [(1.0, 0.1, 5)]
    assert any("counted 5 steps" in one for one in extra.audit().warnings)


@pytest.mark.parametrize("noise", [1.0, 0.0])
def test_a_stated_epsilon_that_the_accountant_does_not_give_is_tested(noise):
    """A bound above it refutes it, whatever the steps give; no bound makes it consistent."""
    canaries = Canaries(table(), 100, seed=0)
    script = Script(canaries, noise=noise).train(1)
    script.engine.accountant.history.append((noise, 0.1, 500))
    members = torch.tensor(canaries._members) * 1.0  # the best scores

    def audit(scores):
        own = {"score": lambda model, records: scores, "engine": script.engine}
        return canaries.audit(script.model, 0.5, DELTA, **own)

    assert audit(members).verdict == "violated"
    found = audit(torch.arange(100.0))
    assert (found.verdict, found["claim"]["epsilon"]) == ("inconclusive", 0.5)
    assert any("0.5 is claimed, but the" in one for one in found.warnings)


def binary_table(records=400):
    """Records of five binary columns, so that most inputs occur several times."""
    x = torch.randint(2, (records, 5)).float()
    return torch.utils.data.TensorDataset(x, (x.sum(1) > 2).long())


def small():
    return torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


@pytest.mark.parametrize("kind", ["mislabelled", "as-they-are", "blank"])
def test_equal_inputs_of_other_records_raise_no_false_alarm(kind):
    canaries = Canaries(binary_table(), 30, kind, seed=0)
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    canaries.watch(model, optimizer)
    for _ in range(4):
        for x, y in DataLoader(canaries.train_set, batch_size=40, shuffle=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    warnings = canaries.audit(model).warnings
    told = ["same inputs as the canaries"] if kind != "blank" else []
    assert len(warnings) == len(told)
    assert all(part in one for part, one in zip(told, warnings, strict=True))


CONSISTENT_UNLESS = [
    ("correct", {}, None),
    ("other data", {"data": table()}, "canaries that are out were trained on"),
    ("not watched", {"watch": False}, "was not watched"),
    ("shuffled", {"poisson": False}, "not Poisson samples"),
    ("no noise", {"silent": True}, "released without noise"),
]


@pytest.mark.parametrize(("case", "plan", "said"), CONSISTENT_UNLESS)
def test_a_training_that_was_not_seen_or_not_claimed_is_never_consistent(
    case, plan, said, monkeypatch
):
    """Finding no violation says nothing then; a green job must not follow."""
    from opacus.optimizers import optimizer as opacus

    plan = dict(plan)
    if plan.pop("silent", False):
        monkeypatch.setattr(opacus, "_generate_noise", lambda reference, **_: 0 * reference)
    watch = plan.pop("watch", True)
    canaries = Canaries(table(), 100, seed=0)
    found = Script(canaries, noise=2.0, **plan).train(5, watch=watch).audit()
    if said is None:
        assert found.verdict == "consistent"
        assert found.warnings == []
    else:
        assert found.verdict == "inconclusive"
        assert said in found["rows"][0]["reason"]
        assert said in str(found)


@pytest.mark.parametrize(
    ("other", "own", "training", "said"),
    [
        (0, 18, True, "optimiser was not watched"),
        (8, 10, True, "optimiser was not watched"),
        (10, 8, True, "times were expected"),
        (18, 0, True, "no canary was recognised"),
        (0, 3, True, "the training was short"),
        (0, 18, False, "no batch in train mode"),
    ],
)
def test_without_an_optimiser_too_most_of_the_training_must_be_on_the_canaries(
    other, own, training, said
):
    """Steps on other data, and then on the canaries."""
    canaries, model = Canaries(table(), 100, seed=0), network().train(training)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    canaries.watch(model)
    loaders = [DataLoader(data, 40) for data in (table(seed=9), canaries.train_set)]
    for x, y in [*([*loaders[0]] * 2)[:other], *([*loaders[1]] * 2)[:own]]:
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    found = canaries.audit(model, 1.0)
    assert found.verdict == "inconclusive"
    assert said in found["rows"][0]["reason"]
    assert canaries.watched.pending == []


def test_shuffled_batches_are_never_consistent_with_the_accountant():
    """Also if the optimiser is not Opacus's; another accountant's ε may hold for them."""
    canaries = Canaries(table(), 100, seed=0)
    model = plain(canaries.train_set, canaries=canaries, epochs=3, rate=1e-3)
    engine = PrivacyEngine(accountant="rdp")
    engine.accountant.history = [(1.0, 40 / len(canaries.train_set), len(canaries.watched.rows))]
    found = canaries.audit(model, engine.get_epsilon(DELTA), DELTA, engine=engine)
    assert found.verdict == "inconclusive"
    assert "not Poisson samples" in found["rows"][0]["reason"]
    found = canaries.audit(model, 1.0)
    assert found.verdict == "inconclusive"  # nothing was clipped
    assert any("do not claim an ε whose accountant assumes" in one for one in found.warnings)


def test_equal_scores_are_never_consistent():
    script = Script(Canaries(table(), 100, seed=0), noise=2.0).train(2)
    found = script.audit(score=lambda model, records: torch.zeros(len(records)))
    assert found.verdict == "inconclusive"
    assert "all scores are equal" in found.warnings[0]


def test_adaptive_clipping_gets_no_false_alarm_and_missing_noise_is_named(monkeypatch):
    from opacus.optimizers import adaclipoptimizer as opacus

    def warnings(out):
        canaries = Canaries(table(), 60, "random-gradient", seed=0, out=out)
        options = {"clipping": "adaptive", "target_unclipped_quantile": 0.5}
        options |= {"clipbound_learning_rate": 0.2, "max_clipbound": 10.0, "min_clipbound": 0.01}
        script = Script(canaries, unclipped_num_std=2.0, **options).train(3)
        return script.audit().warnings

    assert warnings("right") == []
    real = opacus._generate_noise
    monkeypatch.setattr(opacus, "_generate_noise", lambda std, **rest: real(std=std / 2, **rest))
    assert any("times the standard deviation" in one for one in warnings("halved"))


def test_a_part_that_is_called_module_is_no_wrapper():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = torch.nn.Linear(12, 16).requires_grad_(False)
            self.head = torch.nn.Linear(16, 4)

        def forward(self, x):
            return self.head(torch.relu(self.module(2 * x)))

    canaries, model = Canaries(table(), 50, seed=0), Net()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    canaries.watch(model, optimizer)
    for x, y in DataLoader(canaries.train_set, batch_size=40, shuffle=True):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert canaries.audit(model).warnings == []


@pytest.mark.parametrize("kind", ["mislabelled", "random-gradient"])
def test_parameters_that_another_optimiser_trains_without_noise_are_named(kind):
    """The head is trained with Opacus, the body without; only a watched optimiser is accounted."""
    canaries, model = Canaries(table(), 60, kind, seed=0), network(64)
    body = torch.optim.SGD(model[0].parameters(), lr=0.1)
    engine = PrivacyEngine(accountant="rdp")
    wrapped, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model[2].parameters(), lr=0.1),
        data_loader=DataLoader(canaries.train_set, batch_size=40),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
    )

    def trained(by):
        canaries.watch(wrapped, optimizer)
        for x, y in loader:
            wrapped.zero_grad()
            torch.nn.functional.cross_entropy(wrapped(x), y).backward()
            optimizer.step()
            if by is not None:
                by.step()
            optimizer.zero_grad()
        return canaries.audit(wrapped, engine.get_epsilon(DELTA), engine=engine)

    assert not any("parameters changed" in one for one in trained(None).warnings)
    found = trained(body)
    assert any("2 of 4 parameters changed although" in one for one in found.warnings)
    assert found.verdict == "inconclusive"


def test_other_trainable_parameters_raise_no_false_alarm():
    """Freezing one layer and training another, and half precision after the training."""
    canaries, model = Canaries(table(), 60, seed=0), network()
    model[2].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    canaries.watch(model, optimizer)
    model[0].requires_grad_(False)
    model[2].requires_grad_(True)
    for x, y in DataLoader(canaries.train_set, batch_size=40, shuffle=True):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert _of_other_parameters(canaries.watched) == []
    with torch.no_grad():
        model[0].weight += 1.0
    assert "1 of 4 parameters changed" in _of_other_parameters(canaries.watched)[0]
    assert len(_of_other_parameters(canaries.watched)) == 1
    model.half()
    assert _of_other_parameters(canaries.watched) == []


class Wrapped(torch.nn.Module):
    """A model whose records are not its first tensor, or within a mapping or a tuple."""

    def __init__(self, form):
        super().__init__()
        self._module = torch.nn.Linear(12, 16)  # as a wrapper of Opacus calls what it wraps
        self.head = torch.nn.Linear(16, 4)
        self.form = form

    def forward(self, *given, **named):
        x = self.form(*given, **named)
        return self.head(torch.relu(self._module(x)))


FORMS = [
    (lambda weights, x: weights[0] * x, lambda x: ((torch.ones(3), x), {})),
    (lambda batch: batch["x"], lambda x: (({"other": torch.ones(3), "x": x},), {})),
    (lambda pair: pair[1], lambda x: (([torch.ones(3), x],), {})),
    (lambda other, image: image, lambda x: ((), {"other": torch.ones(len(x), 12), "image": x})),
]


@pytest.mark.parametrize(("form", "call"), FORMS)
def test_records_are_recognised_among_the_arguments_of_a_model(form, call):
    data = [{"image": x, "label": int(y)} for x, y in table()]
    canaries, model = Canaries(data, 50, seed=0), Wrapped(form)

    def losses(model, batch):
        given, named = call(batch["image"])
        return torch.nn.functional.cross_entropy(
            model(*given, **named), batch["label"], reduction="none"
        )

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match="give them to audit"):
        canaries.watch(model, optimizer)
    for batch in DataLoader(canaries.train_set, batch_size=40, shuffle=True):
        losses(model, batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    found = canaries.audit(model, loss=losses)
    assert found.warnings == []
    assert found["training"]["watched"]["records"] == len(canaries.train_set)


def test_an_optimiser_that_calls_a_closure_is_observed():
    canaries, model = Canaries(table(), 50, seed=0), network()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    canaries.watch(model, optimizer)
    x, y = next(iter(DataLoader(canaries.train_set, batch_size=400)))

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert canaries.audit(model).warnings == []
