"""Small data and models, and training scripts as users write them."""

import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

FEATURES, CLASSES = 12, 4
DELTA = 1e-5


def table(records=400, seed=0):
    """Random inputs with labels that a linear model can learn in part."""
    draws = torch.Generator().manual_seed(seed)
    x = torch.randn(records, FEATURES, generator=draws)
    noise = torch.randn(records, CLASSES, generator=draws)
    return TensorDataset(x, (x[:, :CLASSES] + noise).argmax(1))


class Noisy(Dataset):
    """An augmentation: records change at every access."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        x, y = self.data[i]
        return x + 0.1 * torch.randn_like(x), y


def network(width=16):
    return Sequential(Linear(FEATURES, width), ReLU(), Linear(width, CLASSES))


def plain(data, epochs=5, batch=40, rate=0.1, canaries=None, shuffle=True, **options):
    """Train without privacy; watch the training if canaries are given."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    if canaries is not None:
        canaries.watch(model, optimizer)
    for _ in range(epochs):
        for x, y in DataLoader(data, batch_size=batch, shuffle=shuffle, **options):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    return model


def private_step(model, optimizer, x, y, noise=0.0, clip=1.0):
    """Make a step of DP-SGD as one writes it by hand, with gradients of single records."""
    params = dict(model.named_parameters())

    def loss(params, x, y):
        return cross_entropy(torch.func.functional_call(model, params, (x[None],)), y[None])

    each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(
        {name: p.detach() for name, p in params.items()}, x, y
    )
    norms = torch.cat([one.flatten(1) for one in each.values()], 1).norm(dim=1)
    factors = (clip / norms.clamp(min=1e-6)).clamp(max=1.0)
    for name, p in params.items():
        summed = torch.einsum("i,i...", factors, each[name])
        p.grad = (summed + noise * clip * torch.randn_like(summed)) / len(x)
    optimizer.step()


class Script:
    """A script with Opacus; mistakes are planted between `make_private` and the first step."""

    def __init__(
        self,
        canaries,
        data=None,
        batch=40,
        noise=1.0,
        poisson=True,
        width=16,
        clip=1.0,
        frozen=(),
        layer=None,
        **more,
    ):
        from opacus import PrivacyEngine

        self.canaries = canaries
        self.engine = PrivacyEngine(accountant="rdp")
        plain_model = network(width)
        for place in frozen:
            plain_model[place].requires_grad_(False)
        if layer is not None:
            plain_model.insert(1, layer())
        self.model, self.optimizer, self.loader = self.engine.make_private(
            module=plain_model,
            optimizer=torch.optim.SGD(
                [p for p in plain_model.parameters() if p.requires_grad], lr=0.5
            ),
            data_loader=DataLoader(
                canaries.train_set if data is None else data, batch_size=batch, shuffle=True
            ),
            noise_multiplier=noise,
            max_grad_norm=clip,
            poisson_sampling=poisson,
            **more,
        )

    def train(self, epochs=2, loader=None, watch=True):
        if watch:
            self.canaries.watch(self.model, self.optimizer)
        for _ in range(epochs):
            for x, y in loader or self.loader:
                self.optimizer.zero_grad()
                cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
        return self

    def audit(self, **options):
        epsilon = self.engine.get_epsilon(DELTA)
        return self.canaries.audit(self.model, epsilon, DELTA, **{"engine": self.engine, **options})
