"""Text canaries of language models: known prefixes with random suffixes, and their exposure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from dpframe import RunAudit
from dpframe_torch import scoring
from dpframe_torch.canaries import STREAM, Canaries
from dpframe_torch.records import CanaryError, Fields

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

PREFIX = "canary {}:"  # no space at the end, which tokenizers join with what follows
DIGITS = "0123456789"
REFERENCES = 63  # suffixes that each canary is compared with
REVERSED = 1e-4  # probability at which exposures are taken for those of a negated loss
LOOKS_REVERSED = (
    "! The loss is larger for canaries in the training set than for those left out. If it is a "
    "log-likelihood, return minus it."
)
NO_BOUND = (
    "Exposure and extraction are not bounds: they describe these canaries, and small values do not "
    "show that a model is private."
)


class TextCanaries(Canaries):
    """Canaries for one run of a language model: texts with a known prefix and a random suffix.

    An independent coin includes each canary in `train_set` with probability ½, once. The audit
    bounds ε from the losses of suffixes, as for `Canaries`. Beside the bound it states how the
    suffixes rank among others of the same prefix (exposure [Carlini2019]), and how many of
    them greedy decoding of the prefix returns (extraction).

    Args:
        texts: the training set, a sequence of strings.
        number: m, the number of canaries.
        prefix: the known beginning; `{}` stands for the number of the canary, so that each has its
            own. Or a beginning for each canary.
        alphabet: letters or words that suffixes consist of.
        length: number of them in a suffix.
        references: n, further random suffixes for each prefix, which are never trained on. An
            exposure is at most log₂(n + 1) bits; more suffixes take longer to score.
        seed: as for `Canaries`.
        held_out: texts that must not be used for training; the audit warns if one was.
        out: the folder of the run; None writes no files.

    Raises:
        CanaryError: as for `Canaries`; or suffixes could not differ.
    """

    def __init__(
        self,
        texts: Sequence[str],
        number: int = 1_000,
        *,
        prefix: str | Sequence[str] = PREFIX,
        alphabet: Sequence[str] = DIGITS,
        length: int = 8,
        references: int = REFERENCES,
        seed: int | None = None,
        held_out: Any = None,
        out: str | Path | None = "runs/canaries",
    ) -> None:
        for name, value in (("number", number), ("length", length), ("references", references)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CanaryError(f"{name}: {value!r} is not a whole number of at least 1")
        if len(set(alphabet)) < max(2, len(alphabet)) or not all(alphabet):
            raise CanaryError("alphabet: needs two or more letters or words, no two of them equal")
        if (some := len(alphabet) ** length) <= references:
            raise CanaryError(
                f"references: {references:,} suffixes cannot differ from a canary's own, because "
                f"there are {some:,} in all; set a larger length= or fewer references="
            )
        self.alphabet, self.length, self.references = alphabet, length, references
        if isinstance(prefix, str):
            prefix = [prefix.replace("{}", str(i)) for i in range(number)]
        self.prefixes = list(prefix)
        if len(self.prefixes) != number or not all(self.prefixes):
            raise CanaryError(
                f"prefix: each of the {number:,} canaries needs one, not an empty one"
            )
        self.tokenizer: Any = None
        self._reading = _Reading(np.zeros(0), np.zeros(0), None)

        def made(rng: np.random.Generator) -> list[str]:
            self.suffixes = self._draw(rng, number)
            drawn = [a + b for a, b in zip(self.prefixes, self.suffixes, strict=True)]
            if known := {*drawn}.intersection(text for text in texts if isinstance(text, str)):
                raise CanaryError(
                    f"texts: {len(known):,} of the canaries are among them, so those left out "
                    "would be trained on, too; pass the texts without canaries, or another seed="
                )
            return drawn

        super().__init__(texts, number, seed=seed, records=made, held_out=held_out, out=out)

    def _draw(self, rng: np.random.Generator, number: int) -> list[str]:
        letters = rng.integers(len(self.alphabet), size=(number, self.length))
        return ["".join(self.alphabet[i] for i in row) for row in letters]

    def watch(self, model: torch.nn.Module, optimizer: Any = None, tokenizer: Any = None) -> None:
        """Link a model to this run, and observe its training; see `Canaries.watch`.

        Args:
            model: the model to train, which gets rows of token ids, a text in each.
            optimizer: of the training.
            tokenizer: turns a text into the ids that the model gets, as Hugging Face's do.

        Raises:
            CanaryError: there is no tokenizer, or it returns no ids.
        """
        self.tokenizer = tokenizer or self.tokenizer
        super().watch(model, optimizer)

    def audit(
        self,
        model: torch.nn.Module | None = None,
        epsilon: float | None = None,
        delta: float = 1e-5,
        *,
        tokenizer: Any = None,
        loss: Callable[[list[str]], Any] | None = None,
        generate: Callable[[list[str]], Sequence[str]] | None = None,
        batch: int = 256,
        **options: Any,
    ) -> RunAudit:
        """Bound the privacy loss of the run, and state exposure and extraction beside the bound.

        Pass a model with its tokenizer, or `loss`.

        Args:
            model: takes token ids, shape [batch, length], and returns logits of the next tokens.
            epsilon: the claim at δ; None for no claim.
            delta: of the claim, and of the bound.
            tokenizer: turns a text into token ids; default: that of `watch`.
            loss: takes a list of texts and returns the loss of each, the sum over its tokens or the
                mean.
            generate: takes a list of prefixes and returns the text that greedy decoding adds to
                each, or the text with its prefix; without it, and with `loss`, nothing is
                extracted.
            batch: number of texts scored at once.
            options: `confidence`, `estimators`, `engine` and `assume` of `Canaries.audit`.

        Raises:
            CanaryError: there is neither a loss nor a model with a tokenizer; or as for `Canaries`.
        """
        self.tokenizer = tokenizer or self.tokenizer
        if model is None and self.watched is not None:
            model = self.watched.model
        if loss is None and (model is None or self.tokenizer is None):
            raise CanaryError("pass the model and its tokenizer=, or loss=, a function of texts")

        def suffix_loss(inner: torch.nn.Module, records: list[str]) -> Tensor:
            self._reading = self._read(inner, records, loss, generate, batch)
            return torch.from_numpy(self._reading.scores)

        stand_in = torch.nn.Module()  # the loss may come from anywhere
        return super().audit(
            stand_in if model is None else model,
            epsilon,
            delta,
            score=suffix_loss,
            batch=batch,
            **options,
        )

    def _read(
        self,
        model: torch.nn.Module,
        texts: list[str],
        loss: Callable[[list[str]], Any] | None,
        generate: Callable[[list[str]], Sequence[str]] | None,
        batch: int,
    ) -> _Reading:
        """Score canaries and their references, without the coins."""
        rng = np.random.default_rng(np.random.SeedSequence([STREAM, int(self.state["seed"]), 6]))
        each = self.references
        others = self._draw(rng, self.number * each)
        several = [*texts, *(self.prefixes[i // each] + one for i, one in enumerate(others))]
        extracted: Bools | None = None
        if loss is None:
            before = [*self.prefixes, *(self.prefixes[i // each] for i in range(len(others)))]
            losses, returned = suffix_losses(model, self.tokenizer, before, several, batch)
            extracted = returned[: self.number]
        else:
            losses = _called(loss, several, batch)
        if generate is not None:
            added = _decoded(generate, self.prefixes, batch)
            # A text of a model of Hugging Face begins with its prefix.
            expected = zip(self.suffixes, texts, strict=True)
            extracted = np.array(list(map(str.startswith, added, expected)))
        rows = np.column_stack([losses[: self.number], losses[self.number :].reshape(-1, each)])
        with np.errstate(invalid="ignore"):  # a loss may be infinite
            # The mean over the suffixes of a prefix takes out how hard the prefix is.
            scores = rows.mean(axis=1) - rows[:, 0]
        return _Reading(scores, exposures(-rows[:, 0], -rows[:, 1:]), extracted)

    def _beside_bound(self) -> dict[str, Any]:
        """Return exposure and extraction of canaries in the training set, and of the others."""
        read = self._reading
        sides = {"in": self._members, "out": ~self._members}
        extracted = None
        if read.extracted is not None:
            extracted = {
                s: [int(read.extracted[of].sum()), int(of.sum())] for s, of in sides.items()
            }
        text = {
            "exposure": {side: _summary(read.bits[of]) for side, of in sides.items()},
            "chance": dict(zip(("median", "mean"), chance(self.references), strict=True)),
            "at_most": math.log2(self.references + 1),
            "extracted": extracted,
        }
        beside = [*_lines(text), NO_BOUND]
        if len(set(self._members)) == 2:
            from scipy import stats  # slow to import

            inside, outside = (read.bits[of] for of in sides.values())
            chance_of_it = stats.mannwhitneyu(inside, outside, alternative="less").pvalue
            if chance_of_it < REVERSED:
                beside.append(LOOKS_REVERSED)
        return {"text": text, "beside": beside}

    def _fields(self) -> Fields:
        return Fields("input_ids", None)

    def _inputs_of(self, records: Sequence[Any]) -> list[Tensor]:
        if self.tokenizer is None:
            raise CanaryError(
                "tokenizer: watch needs it, to recognise texts in batches of token ids"
            )
        return [torch.tensor(token_ids(self.tokenizer, text)) for text in records]

    def _try_scoring(self, model: torch.nn.Module) -> None:
        suffix_losses(model, self.tokenizer, self.prefixes[:2], self.records[:2], 2)


class _Reading(NamedTuple):
    """Losses and greedy answers of a model for the suffixes, computed without the coins."""

    scores: Floats  # by how much the loss is below the mean over suffixes of the prefix, shape [m]
    bits: Floats  # exposures, shape [m]
    extracted: Bools | None  # True if greedy decoding of the prefix returns the suffix, shape [m]


def exposures(scores: npt.ArrayLike, references: npt.ArrayLike) -> Floats:
    """Return the exposure of each canary in bits, log₂(n + 1) − log₂ rank, shape [m].

    The rank among n + 1 suffixes of the same prefix, the canary's own among them, is 1 plus the
    number of reference scores at least as large; this estimates the rank among all suffixes
    [Carlini2019]. Without a leak every rank is equally likely, or larger if scores tie. NaN counts
    against the canary.

    Args:
        scores: of the canaries, shape [m].
        references: scores of n suffixes with the same prefix that were never trained on, [m, n].
    """
    own, other = np.asarray(scores, np.float64)[:, None], np.asarray(references, np.float64)
    ranks = 1 + (~(other < own)).sum(axis=1)
    return np.asarray(math.log2(1 + other.shape[1]) - np.log2(ranks))


def chance(references: int) -> tuple[float, float]:
    """Return median and mean of exposures without a leak, if each of n + 1 ranks is as likely."""
    bits = math.log2(references + 1) - np.log2(np.arange(1, references + 2))
    return float(np.median(bits)), float(bits.mean())


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of a text.

    Args:
        tokenizer: returns a sequence of ids for a text, or a mapping with `input_ids`.
        text: to be tokenized.

    Raises:
        CanaryError: it returns something else.
    """
    made = tokenizer(text)
    try:
        made = made["input_ids"] if hasattr(made, "keys") else made
        ids = np.asarray(made).reshape(-1)
    except (KeyError, TypeError, ValueError) as error:
        raise CanaryError(f"tokenizer: returns no input_ids: {error!r}") from None
    if ids.dtype.kind not in "iu" or not len(ids):
        raise CanaryError(f"tokenizer: {text[:40]!r} yields no token ids")
    return [int(one) for one in ids]


def suffix_losses(
    model: torch.nn.Module,
    tokenizer: Any,
    prefixes: Sequence[str],
    texts: Sequence[str],
    batch: int,
) -> tuple[Floats, Bools]:
    """Return the loss of each suffix, and True if greedy decoding of the prefix returns its tokens.

    The loss is the sum over the tokens that a text adds to its prefix. Greedy decoding returns them
    if each is the likeliest after the ones before, so one pass over the text shows it. A token
    across the end of the prefix belongs to the suffix.

    Args:
        model: takes token ids, shape [batch, length], and returns logits.
        tokenizer: of the model.
        prefixes: beginnings of the texts.
        texts: to be scored.
        batch: number of texts of one length in a pass.
    """
    special = set(getattr(tokenizer, "all_special_ids", ()))
    known = {prefix: token_ids(tokenizer, prefix) for prefix in dict.fromkeys(prefixes)}
    by_length: dict[int, list[tuple[int, int, list[int]]]] = {}
    for place, (prefix, text) in enumerate(zip(prefixes, texts, strict=True)):
        ids = token_ids(tokenizer, text)
        while len(ids) > 1 and ids[-1] in special:  # an end that each text has
            ids.pop()
        pairs = zip(known[prefix], ids, strict=False)
        shared = next(
            (n for n, (a, b) in enumerate(pairs) if a != b), min(len(known[prefix]), len(ids))
        )
        if len(ids) <= max(1, shared):
            raise CanaryError(f"tokenizer: {text[:40]!r} has no tokens beyond those of its prefix")
        by_length.setdefault(len(ids), []).append((place, max(1, shared), ids))
    losses, returned = np.zeros(len(texts)), np.zeros(len(texts), bool)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    with scoring.evaluating(model), torch.no_grad():
        for group in _batches(by_length.values(), batch):
            places, first, rows = zip(*group, strict=True)
            ids = torch.tensor(rows, device=device)
            logits = scoring.logits_of(model(ids)).float()[:, :-1]
            targets = ids[:, 1:]
            of_suffix = (
                torch.arange(1, ids.shape[1], device=device)
                >= torch.tensor(first, device=device)[:, None]
            )
            each = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
            right = (logits.argmax(2) == targets) | ~of_suffix
            losses[list(places)] = (each * of_suffix).sum(1).double().cpu().numpy()
            returned[list(places)] = right.all(1).cpu().numpy()
    return losses, returned


def _batches(groups: Iterable[list[Any]], batch: int) -> Iterator[list[Any]]:
    for group in groups:
        for start in range(0, len(group), batch):
            yield group[start : start + batch]


def _decoded(
    generate: Callable[[list[str]], Sequence[str]], prefixes: list[str], batch: int
) -> list[str]:
    """Return the text that a function gives for each prefix."""
    added: list[str] = []
    for chunk in _batches([prefixes], batch):
        made = generate(list(chunk))
        texts = [] if made is None or isinstance(made, str) else list(made)
        if len(texts) != len(chunk) or not all(isinstance(text, str) for text in texts):
            raise CanaryError("generate: must return a text for each prefix")
        added += texts
    return added


def _called(loss: Callable[[list[str]], Any], texts: list[str], batch: int) -> Floats:
    """Return the losses that a function of texts gives, shape [texts]."""
    parts = [np.zeros(0)]
    for chunk in _batches([texts], batch):
        with torch.no_grad():
            made = scoring.numbers_of(loss(list(chunk)), "loss")
        if made.shape != (len(chunk),):
            raise CanaryError(
                f"loss: returned shape {made.shape} for {len(chunk)} texts; one loss for each is "
                "required"
            )
        parts.append(made)
    return np.concatenate(parts)


def _summary(bits: Floats) -> dict[str, float] | None:
    """Return median, mean and largest exposure; None if there are no canaries."""
    if not len(bits):
        return None
    return {
        "median": float(np.median(bits)),
        "mean": float(bits.mean()),
        "largest": float(bits.max()),
    }


def _lines(text: Mapping[str, Any]) -> Iterator[str]:
    """Write exposure and extraction in sentences."""
    names = {"in": "in the training set", "out": "left out"}
    sides = [
        f"{names[side]} median {own['median']:.3g}, mean {own['mean']:.3g}, largest "
        f"{own['largest']:.3g} bits"
        for side, own in text["exposure"].items()
        if own is not None
    ]
    yield (
        f"Exposure of canaries {'; '.join(sides)}. Without a leak the median is "
        f"{text['chance']['median']:.3g} and the mean {text['chance']['mean']:.3g}; at most "
        f"{text['at_most']:.3g} can be shown."
    )
    if text["extracted"] is not None:
        (inside, number), (outside, others) = (text["extracted"][side] for side in ("in", "out"))
        yield (
            f"Greedy decoding of the prefix returns the suffix of {inside:,} of {number:,} "
            f"canaries in the training set and of {outside:,} of {others:,} left out."
        )
