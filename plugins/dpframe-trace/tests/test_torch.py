"""Noise of PyTorch is followed from its line to the released value."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from dpframe_trace import trace
from torch import distributions

D0 = torch.tensor([0.0, 0.4, 0.3])
D1 = torch.tensor([1.0, 0.4, 0.3])


def total(data):
    return data.clamp(0, 1).sum()


def bins(data):
    return torch.stack([(data < 0.5).sum(), (data >= 0.5).sum()]).double()


def laplace(data):
    return total(data) + distributions.Laplace(0.0, 1.0).sample()


def laplace_around(data):
    return distributions.Laplace(total(data), 1.0).sample()


def laplace_of_doubles(data):
    noise = distributions.Laplace(torch.zeros(2).double(), 2.0).rsample()
    return (bins(data) + noise).tolist()


def laplace_read(data):
    return float(total(data)) + distributions.Laplace(0.0, 1.0).sample().item()


def laplace_by_parts(data):
    noise = distributions.Laplace(0.0, 2.0).sample((2, 1))
    return bins(data)[1] + noise[1].squeeze(), bins(data)[0] + noise.flatten()[0]


def laplace_in_place(data):
    sums = bins(data)
    sums += distributions.Laplace(0.0, 1.0).sample((2,)).double().mul_(2.0)
    return sums


def laplace_of_numpy(data):
    return total(data) + torch.tensor(np.random.laplace())


def laplace_of_numpy_array(data):
    return bins(data) - torch.from_numpy(np.random.laplace(scale=2.0, size=2))


def laplace_of_exponentials(data):
    both = torch.empty(2, dtype=torch.float64).exponential_()
    return float(total(data)) + (both[0] - both[1]).item()


def laplace_of_uniform(data):
    level = torch.rand(1, dtype=torch.float64) - 0.5
    return total(data) - torch.sign(level) * torch.log1p(-2 * level.abs())


def laplace_in_a_gradient(data):
    weight = torch.ones(1, requires_grad=True)
    (total(data) * weight).sum().backward()
    weight.grad += distributions.Laplace(0.0, 1.0).sample((1,))
    return weight.grad


def choice(data):
    return distributions.Categorical(logits=0.25 * bins(data)).sample()


def choice_of_multinomial(data):
    return int(torch.multinomial(torch.softmax(0.25 * bins(data), 0), 1))


def coin(data):
    return torch.bernoulli(torch.sigmoid(0.5 * total(data)))


RIGHT = {
    laplace: 1.0,
    laplace_around: 1.0,
    laplace_of_doubles: 1.0,
    laplace_read: 1.0,
    laplace_by_parts: 1.0,
    laplace_in_place: 1.0,
    laplace_of_numpy: 1.0,
    laplace_of_numpy_array: 1.0,
    laplace_of_exponentials: 1.0,
    laplace_of_uniform: 1.0,
    laplace_in_a_gradient: 1.0,
}


@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
@pytest.mark.parametrize(("claim", "kinds"), [(1.0, []), (0.5, ["budget"])])
def test_laplace_noise_has_its_loss(function, claim, kinds):
    found = trace(function, D0, D1, epsilon=claim)
    assert ([finding.kind for finding in found.findings], found.unknown) == (kinds, [])
    assert found.epsilon == pytest.approx(1.0, rel=1e-6)
    assert found.lines[0].file == __file__


@pytest.mark.parametrize("function", [choice, choice_of_multinomial, coin])
def test_a_choice_has_the_loss_of_its_probabilities(function):
    found = trace(function, D0, D1, epsilon=0.5)
    assert (found.findings, found.unknown) == ([], [])
    one, two = (
        [torch.softmax(0.25 * bins(data), 0), torch.sigmoid(0.5 * total(data))] for data in (D0, D1)
    )
    at = function is coin
    laws = [np.array([float(p), 1 - float(p)] if at else p.tolist()) for p in (one[at], two[at])]
    loss = np.abs(np.log(laws[0]) - np.log(laws[1])).max()
    assert found.epsilon == pytest.approx(loss, rel=1e-6)
    kinds = [finding.kind for finding in trace(function, D0, D1, epsilon=0.9 * loss).findings]
    assert kinds == ["budget"]


def normal_randn(data):
    return total(data) + 4 * torch.randn(())


def normal_in_place(data):
    return total(data) + torch.empty(()).normal_(0, 4)


def normal_with_std(data):
    return total(data) + torch.normal(0.0, 4.0, (1,))[0]


def normal_distribution(data):
    return distributions.Normal(total(data), 4.0).sample()


def normal_like(data):
    return torch.randn_like(data).mul(4.0).add(data.clamp(0, 1))


@pytest.mark.parametrize(
    "function",
    [normal_randn, normal_in_place, normal_with_std, normal_distribution, normal_like],
)
def test_normal_noise_has_the_loss_of_its_mu(function):
    from dpframe import GaussianDP

    found = trace(function, D0, D1, epsilon=2.0, delta=1e-5)
    assert (found.findings, found.unknown) == ([], [])
    assert found.epsilon == pytest.approx(GaussianDP(0.25).epsilon_at(1e-5), rel=1e-5)
    assert found.lines[0].scales == (4.0, 4.0)


def unclipped(data):
    return data.sum() + distributions.Laplace(0.0, 1.0).sample()


def scale_from_data(data):
    return total(data) + distributions.Laplace(0.0, 1 + data.max()).sample()


def same_noise_twice(data):
    noise = torch.randn(())
    return total(data) + 9 * noise, 3 * total(data) + 9 * noise


def one_noise_for_all(data):
    return bins(data) + distributions.Laplace(0.0, 2.0).sample()


def divided_by_n(data):
    return (total(data) + distributions.Laplace(0.0, 1.0).sample()) / len(data)


def no_noise_at_all(data):
    torch.randn(3)
    return total(data)


def seeded(data):
    torch.manual_seed(0)
    return total(data) + 9 * torch.randn(())


def seeded_generator(data):
    return total(data) + 9 * torch.randn((), generator=torch.Generator().manual_seed(3))


def fresh_generator(data):
    return total(data) + 9 * torch.randn((), generator=torch.Generator())


class Model(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)


def weights_without_noise(data):
    torch.randn(1)
    return Model(data.clone())


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (unclipped, "budget"),
        (scale_from_data, "scale"),
        (same_noise_twice, "reused"),
        (one_noise_for_all, "reused"),
        (divided_by_n, "output"),
        (no_noise_at_all, "output"),
        (seeded, "seed"),
        (seeded_generator, "seed"),
        (fresh_generator, "seed"),
        (weights_without_noise, "output"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_is_found(function, kind):
    d1 = D1[:2] if function is divided_by_n else 3 * D1 if function is unclipped else D1
    found = trace(function, D0, d1, epsilon=1.0, delta=1e-5)
    assert kind in [finding.kind for finding in found.findings]
    assert all(f.line > function.__code__.co_firstlineno for f in found.findings if f.line)


def dropped(data):
    return total(torch.nn.functional.dropout(data, 0.5)) + 0.0


def shuffled(data):
    return data[torch.randperm(3)]


def random_model(data):
    return float(torch.nn.Linear(3, 1)(data)) + distributions.Laplace(0.0, 1e3).sample()


def trained(data):
    """Release the weights of private training: clipped gradients, noise, momentum."""
    model = torch.nn.Linear(1, 1)
    torch.nn.init.normal_(model.weight, std=0.1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimiser.zero_grad()
        model(data[torch.rand(len(data)) < 0.5][:, None]).sum().backward()
        for parameter in model.parameters():
            parameter.grad.clamp_(-1, 1)
            parameter.grad += torch.normal(0, 4.0, parameter.shape)
        optimiser.step()
    return model


def largest(data):
    return int(torch.argmax(bins(data) + distributions.Gumbel(0.0, 4.0).sample((2,))))


def exponential_race(data):
    weights = torch.softmax(0.25 * bins(data), 0)
    return int(torch.argmax(weights / torch.empty(2).double().exponential_()))


def gumbel_softmax(data):
    return torch.nn.functional.gumbel_softmax(0.25 * bins(data))


def of_half_precision(data):
    return total(data).half() + torch.randn((), dtype=torch.float16) * 9


def through_a_matrix(data):
    return torch.eye(2).double() @ (bins(data) + 0.0) + torch.ones(2, 2) @ torch.randn(2)


def overwritten(data):
    noise = torch.randn(2)
    torch._foreach_add_([noise], [total(data).repeat(2)])
    return noise + 1


def copied(data):
    return total(data) + copy.deepcopy(9 * torch.randn(1))


def of_cauchy(data):
    return total(data) + distributions.Cauchy(0.0, 3.0).sample()


@pytest.mark.parametrize(
    "function",
    [
        dropped,
        shuffled,
        random_model,
        trained,
        largest,
        exponential_race,
        gumbel_softmax,
        of_half_precision,
        through_a_matrix,
        of_cauchy,
        overwritten,
        copied,
    ],
)
def test_noise_that_is_not_followed_is_no_reason_to_accuse(function):
    assert trace(function, D0, D1, epsilon=0.4).findings == []


@pytest.mark.parametrize("function", [dropped, shuffled, gumbel_softmax, of_half_precision])
def test_a_difference_that_cannot_be_judged_is_listed(function):
    assert trace(function, D0, D1, epsilon=1.0).exit_code == 3


def test_the_generator_of_pytorch_is_left_alone():
    before = torch.get_rng_state(), torch.manual_seed, torch.from_numpy
    laws = dict(vars(distributions.Laplace))
    for function in (laplace, coin, shuffled, dropped, seeded):
        trace(function, D0, D1)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (torch.manual_seed, torch.from_numpy) == before[1:]
    assert dict(vars(distributions.Laplace)) == laws


def test_gradients_flow_through_a_sum_with_noise():
    def function(data):
        weight = torch.ones(3, requires_grad=True)
        loss = ((weight * data).sum() + torch.randn(())) ** 2
        loss.backward()
        return weight.grad is not None and bool(weight.grad[1] != 0)

    found = trace(function, D0, D1, epsilon=1.0, delta=0.1)
    assert found.findings == []


def sum_of_all(data):
    return data.sum() + distributions.Laplace(0.0, 1.0).sample()


def test_rounding_in_32_bits_is_no_violation():
    small, large = torch.tensor([1023.3, 0.0]), torch.tensor([1023.3, 1.0])
    assert float(large.sum()) - float(small.sum()) > 1.00001  # rounding alone
    found = trace(sum_of_all, small, large, epsilon=1.0)
    assert (found.findings, found.unknown) == ([], [])
    found = trace(sum_of_all, small, large, epsilon=0.9)
    assert [finding.kind for finding in found.findings] == ["budget"]
