"""Right trainings with Opacus in the settings that people use, for the checks of `watch`."""

import contextlib
import itertools

import torch
from dpframe_torch import Canaries
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from torch_support import CLASSES, FEATURES, network, table
from torch_support.mistakes import with_noise

LARGE = 1e6


class Pictures(nn.Module):
    """A convolution over the features as a picture."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(1, 4, 3, padding=1)
        self.norm, self.head = nn.GroupNorm(2, 4), nn.Linear(48, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.inner(x.reshape(-1, 1, 3, 4))).flatten(1))


class Sentences(nn.Module):
    """An embedding of the rounded features, and an LSTM."""

    def __init__(self):
        from opacus.layers import DPLSTM

        super().__init__()
        self.words, self.inner = nn.Embedding(7, 8), DPLSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        tokens = (3 + x).clamp(0, 6).long()
        return self.head(self.inner(self.words(tokens))[0][:, -1])


class Dropped(nn.Module):
    """A network as `transformers` has them: it returns the loss, and drops units in train mode."""

    def __init__(self):
        super().__init__()
        self.inner, self.drop = network(40), nn.Dropout(0.1)

    def forward(self, x, labels=None, **_):
        logits = self.drop(self.inner(x))
        loss = {} if labels is None else {"loss": cross_entropy(logits, labels)}
        return {**loss, "logits": logits}


def frozen():
    model = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.ReLU(), *network(40))
    model[0].requires_grad_(False)
    return model


def lora():
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, target_modules=["0"], modules_to_save=["2"])
    return get_peft_model(network(40), config)


class Setting:
    """A training with Opacus.

    Args:
        model: makes the model.
        optimizer: class of the optimiser.
        context: makes the context of the forward pass.
        physical: number of records in a part of a batch, for accumulation.
        trainer: train by Hugging Face's `Trainer`.
        evaluated: let it evaluate the model on other data between steps.
        options: of `make_private`.
    """

    def __init__(
        self,
        model=lambda: network(40),
        optimizer=torch.optim.SGD,
        context=contextlib.nullcontext,
        physical=None,
        trainer=False,
        evaluated=True,
        **options,
    ):
        self.make, self.of, self.context = model, optimizer, context
        self.physical, self.trainer = physical, trainer
        self.evaluated, self.options = evaluated, options

    def run(self, kind="mislabelled", seed=0, mistake=None, epochs=3, noise=2.0, number=100):
        """Return the audit of a training, with a mistake planted by a function of this object."""
        from opacus import PrivacyEngine

        torch.manual_seed(seed)
        data = table(4 * number)
        if self.trainer:
            data = [{"x": x, "labels": y} for x, y in data]
        self.canaries = Canaries(data, number, kind, seed=seed, out=None)
        inner, self.engine = self.make(), PrivacyEngine(accountant="rdp")
        trained = [p for p in inner.parameters() if p.requires_grad]
        ghost = self.options.get("grad_sample_mode") == "ghost"
        more = {"criterion": nn.CrossEntropyLoss()} if ghost else {}
        self.model, self.optimizer, *criterion, self.loader = self.engine.make_private(
            module=inner,
            optimizer=self.of(trained, lr=0.01),
            data_loader=DataLoader(self.canaries.train_set, batch_size=number // 2),
            noise_multiplier=noise,
            **{"max_grad_norm": 1.0, **more, **self.options},
        )
        self.criterion = criterion[0] if criterion else cross_entropy
        if mistake is not None:
            mistake(self)
        if self.trainer:
            return self._by_trainer(epochs)
        self.canaries.watch(self.model, self.optimizer)
        with self._batches() as batches:
            for x, y in itertools.chain.from_iterable(itertools.repeat(batches, epochs)):
                self.optimizer.zero_grad()
                with self.context():
                    loss = self.criterion(self.model(x), y)
                loss.backward()
                self.optimizer.step()
        return self.canaries.audit(self.model.eval(), None, 1e-5, engine=self.engine)

    def _batches(self):
        from opacus.utils.batch_memory_manager import BatchMemoryManager

        if self.physical is None:
            return contextlib.nullcontext(self.loader)
        return BatchMemoryManager(
            data_loader=self.loader,
            max_physical_batch_size=self.physical,
            optimizer=self.optimizer,
        )

    def _by_trainer(self, epochs):
        from dpframe_torch.hugging_face import CanaryCallback
        from transformers import Trainer, TrainerCallback, TrainingArguments

        one = self

        class Cleared(TrainerCallback):
            """`Trainer` clears the gradients of the model, not those that Opacus keeps."""

            def on_step_end(self, *_, **__):
                one.optimizer.zero_grad()

        class Private(Trainer):
            def get_train_dataloader(self):
                return one.loader

        callback = CanaryCallback(self.canaries, engine=self.engine)
        Private(
            model=self.model,
            args=TrainingArguments(
                output_dir="trainer",
                max_steps=epochs * len(self.loader),
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                eval_strategy="steps" if self.evaluated else "no",
                eval_steps=5,
                max_grad_norm=0.0,
                use_cpu=True,
                disable_tqdm=True,
                remove_unused_columns=False,
                label_names=["labels"],
            ),
            eval_dataset=[{"x": x, "labels": y} for x, y in table(30, seed=9)],
            optimizers=(self.optimizer, None),
            callbacks=[Cleared(), callback],
        ).train()
        return callback.audit


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


SETTINGS = {
    "convolution": Setting(Pictures),
    "embedding and LSTM": Setting(Sentences),
    "frozen layer": Setting(frozen),
    "autocast": Setting(context=autocast),
    "Adam": Setting(optimizer=torch.optim.Adam),
    "accumulation": Setting(physical=16, max_grad_norm=0.1),
    "functorch": Setting(grad_sample_mode="functorch"),
    "per-layer clipping": Setting(clipping="per_layer", max_grad_norm=[0.5] * 4),
    "adaptive clipping": Setting(
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=5.0,
    ),
    "ghost clipping": Setting(grad_sample_mode="ghost"),
    "LoRA": Setting(lora),
    "Trainer": Setting(Dropped, trainer=True),
    "Trainer without evaluation": Setting(Dropped, trainer=True, evaluated=False),
}


def noise_halved(one):
    with_noise(one, 0.5)


def not_clipped(one):
    """Clip to a norm that no gradient reaches; the noise is scaled for the stated one."""
    optimizer, usual = one.optimizer, type(one.optimizer).clip_and_accumulate
    if "ghost" in one.options.values():
        one.model.max_grad_norm = LARGE
        return

    def clip_and_accumulate():
        stated = optimizer.max_grad_norm
        optimizer.max_grad_norm, optimizer.max_grad_norms = LARGE, [LARGE] * 4
        usual(optimizer)
        optimizer.max_grad_norm = stated

    optimizer.clip_and_accumulate = clip_and_accumulate


MISTAKES = {
    "noise halved": (noise_halved, "times the standard deviation"),
    "not clipped": (not_clipped, "gradients of single records were not clipped"),
}
