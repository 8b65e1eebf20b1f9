"""Canaries in a training set, each included by an independent coin and kept in the run's file."""

from __future__ import annotations

import hashlib
import json
import secrets
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import default_collate

from dpframe_torch import auditing, findings, scoring
from dpframe_torch.records import (
    REPLACING,
    CanaryError,
    Doubt,
    Fields,
    Kind,
    Making,
    check_tokens,
    copy_of,
    digest_of,
    fields_of,
    inputs_of,
    make,
)
from dpframe_torch.training_set import TrainingSet, check_data, check_records, with_canaries
from dpframe_torch.watching import Watch

Bools = npt.NDArray[np.bool_]
Whole = npt.NDArray[np.int64]

FILE = "canaries.json"
SCHEMA = 1
MOST_RUNS = 1_000  # in one folder, whose noise is compared
MOST_COMPARED = 50_000  # records, about, whose inputs are compared with canaries
LOOKED_AT_TWICE = 3  # records, to notice an augmentation
STREAM = 0xD9F4A3E  # so that coins differ from the numbers of a script that uses the same seed


class Uses:
    """Uses of the same coins in this process, shared by all copies of canaries."""

    def __init__(self) -> None:
        self.looks: list[str] = []  # digests of different questions
        self.trainings: list[list[int]] = []  # records in each step of each watched training

    def __deepcopy__(self, memo: Any) -> Uses:
        return self


USES: weakref.WeakKeyDictionary[Any, dict[str, Uses]] = weakref.WeakKeyDictionary()
"""By the data and the coins, because two objects with one seed toss the same coins."""


def _uses_of(data: Any, coins: str) -> Uses:
    try:
        return USES.setdefault(data, {}).setdefault(coins, Uses())
    except TypeError:  # a list
        return Uses()


class Canaries:
    """Canaries for one run of a training script, and the audit of that run.

    An independent coin includes each canary in `train_set` with probability ½. `mislabelled`,
    `blank` and `as-they-are` canaries are made from random records of the training set and replace
    them; if the coin excludes a canary, the record is left out. Canaries of the other kinds, and
    your own `records`, are added. The bound is valid for any canaries, but it is larger if the
    model recognises them better.

    The coins are kept in `canaries.json` in the folder `out`. A script that is interrupted and
    restarted gets the same canaries, until they have been audited. The next run tosses new coins
    unless a seed is given. In distributed training every rank gets the same canaries, and rank 0
    writes the file.

    Args:
        train_set: a dataset with a length whose records are (input, label) or mappings.
        number: m, the number of canaries. m canaries can show an ε of at most about ln(m/20) to
            ln(m/10).
        kind: "mislabelled", "blank", "as-they-are", "random-gradient" or "text".
        seed: for the choice of canaries and the coins; default: a new one from the system. A
            rerun with the same seed, number and kind tosses the same coins, which the first audit
            has revealed, so it is not a new audit; a warning says so if both use the same folder.
        records: your own canaries, instead of `kind`; `number` is then their number. Or a function
            that makes `number` of them from a NumPy generator, the same ones for the same seed.
        classes: the number of labels; default: inferred.
        vocabulary: token ids for `text`, their number, or the tokenizer, whose special tokens are
            left out; default: the tokens of the training set's first records.
        length: number of tokens in a `text` canary; default: that of a record.
        held_out: records that must not be used for training; the audit warns if one was.
        out: the folder of the run; None writes no files.

    Raises:
        CanaryError: the data are unsuitable, or the folder contains an unfinished run with other
            canaries.
    """

    train_set: TrainingSet

    def __init__(
        self,
        train_set: Any,
        number: int = 1_000,
        kind: Kind = "mislabelled",
        *,
        seed: int | None = None,
        records: Any = None,
        classes: int | None = None,
        vocabulary: Any = None,
        length: int | None = None,
        held_out: Any = None,
        out: str | Path | None = "runs/canaries",
    ) -> None:
        check_data(train_set, number, kind, records, seed)
        self.kind: str = kind if records is None else "own"
        self.number = len(records) if hasattr(records, "__len__") else number
        self.folder = None if out is None else Path(out)
        self.held_out = held_out
        kept = scoring.from_first_rank(lambda: _read(self.folder))
        resumed = None if kept is None or kept["audited"] else kept
        entropy = seed if resumed is None or seed is not None else int(resumed["seed"])
        if entropy is None:
            entropy = scoring.from_first_rank(lambda: secrets.randbits(128))
        choice, making = (
            np.random.default_rng(each)
            for each in np.random.SeedSequence([STREAM, entropy]).spawn(2)
        )
        # Otherwise 501 canaries would have the coins of 500 that were revealed, and one more.
        own = (2, self.number, *self.kind.encode())
        tosses = np.random.default_rng(np.random.SeedSequence([STREAM, entropy], spawn_key=own))
        places = np.sort(choice.choice(len(train_set), self.number, replace=records is not None))
        if records is not None:
            if any(one is not None for one in (classes, vocabulary, length)):
                raise CanaryError("records: they need no classes=, vocabulary= or length=")
            given = records(making) if callable(records) else records
            check_records(train_set, given)
            made = [given[i] for i in range(self.number)]
        else:
            of = Making(train_set, making, classes, vocabulary, length)
            made = make(kind, of, places)
        self.records = [copy_of(one) for one in made]  # the data may change while they are used
        self._right = self._right_labels(train_set, places)
        self._members: Bools = tosses.random(self.number) < 0.5
        self._data, self._places = train_set, places
        self.train_set = self._with(self._members)
        self.state: dict[str, Any] = {
            "schema": SCHEMA,
            "run": secrets.token_hex(8),
            "seed": str(entropy),
            "number": self.number,
            "kind": self.kind,
            "canaries": digest_of(self.records),
            "members": "".join("01"[int(one)] for one in self._members),
            "audited": 0,
            "looks": [],
            "noises": [] if kept is None else kept.get("noises", []),
            "earlier": _audited_before(kept),
        }
        if resumed is not None:
            self._resume(resumed)
        self.state["run"] = scoring.from_first_rank(lambda: self.state["run"])
        self.save()
        self.watched: Watch | None = None
        self._uses = _uses_of(train_set, self.state["members"])
        self._asked: set[str] = set()  # questions of this object

    @property
    def run(self) -> str:
        """The name of the run, which is stored in a watched model."""
        return str(self.state["run"])

    @property
    def members(self) -> Bools:
        """The coins, shape [m]; hidden from attacks and scripts until the run has been audited."""
        if not self.state["audited"]:
            raise CanaryError(
                "the coins are hidden until the audit: scores must not depend on them"
            )
        return self._members.copy()

    def reference_set(self, number: int) -> TrainingSet:
        """Return the training set of a reference model: the same canaries with independent coins.

        Train a model on it as on `train_set`, and pass it to `audit` under its number:
        `references={0: model, …}`. Each of these sets includes about half of the canaries. Its
        coins are independent of the run's, so scores may depend on them.

        Args:
            number: of the reference model, from 0.
        """
        return self._with(self._reference_coins(number))

    def watch(self, model: torch.nn.Module, optimizer: Any = None) -> None:
        """Link a model to this run, and observe its training.

        Call it after Opacus's `make_private`. It observes the inputs of the model and the
        optimiser, so that `audit` can warn about inconsistencies: a loader of other data, batches
        that are not Poisson samples, or missing noise. White-box canaries need it.

        Args:
            model: the model to train, or Opacus's wrapper around it.
            optimizer: of the training; Opacus's wrapper for white-box canaries. Without it, every
                batch counts as a step.

        Raises:
            CanaryError: the canaries are white-box, but the optimiser has no per-record gradients;
                or a text canary has a token that the model does not know.
        """
        if (watched := self.watched) is not None:
            watched.detach()
            # The training continues with a new optimiser.
            if watched.model is scoring.inner_of(model):
                watched.attach(model, optimizer)
                return
        fields = self._fields()
        check_tokens(model, self.kind, self.records, fields)
        self.watched = Watch(
            self.run,
            self.kind,
            len(self.train_set),
            self._inputs_of(self.records),
            self._inputs_of(self._held_out()),
            np.random.SeedSequence([STREAM, int(self.state["seed"]), 4]),
            fields.inputs if isinstance(fields.inputs, str) else None,
            self._members,
        )
        self._uses.trainings.append(self.watched.rows)
        self.watched.attach(model, optimizer)
        if self.kind != "random-gradient" and scoring.ranks()[1] == 1:
            try:  # training takes long, so the needs of the audit are checked first
                self._try_scoring(model)
            except CanaryError as error:
                warnings.warn(f"{error} (give them to audit)", stacklevel=2)

    def audit(
        self,
        model: torch.nn.Module,
        epsilon: float | None = None,
        delta: float = 1e-5,
        *,
        score: str | Callable[..., Tensor] | None = None,
        loss: Callable[..., Tensor] | None = None,
        references: scoring.References = (),
        collate: Callable[[list[Any]], Any] | None = None,
        batch: int = 256,
        confidence: float = 0.95,
        estimators: Sequence[Any] | None = None,
        engine: Any = None,
        assume: str | None = None,
    ) -> auditing.Audit:
        """Bound the privacy loss of the run, and compare the bound with the claim.

        Scores are computed first, without the coins, and then the bound. For any scores, the bound
        holds for the whole training at the confidence. No number here shows that a model is
        private. If the audit did not see the training, or the training is not the one of the claim,
        the verdict is "inconclusive" instead of "consistent", and a warning gives the reason.

        Args:
            model: as trained, or loaded from a checkpoint.
            epsilon: the claim at δ, as Opacus prints it; None for no claim.
            delta: of the claim, and of the bound.
            score: "loss" (minus the loss), "contrast" (by how much the model prefers a wrong label
                to the right one), "lira" and "rmia" (likelihood ratios from reference models),
                "gradient" (inner products with the noisy gradients of all steps; for
                `random-gradient`), or a function of the model and the list of all canaries that
                returns m scores, larger for members. Default: the score that suits the kind.
            loss: a function of the model and a batch that returns a loss for each record of the
                batch; default: cross-entropy; for language models, its mean over tokens.
            references: models trained like this one but without any of these canaries, or {k:
                model} for models trained on `reference_set(k)`. "loss" and "contrast" subtract the
                mean loss of the models trained without the canary; "lira" [Carlini2022, algorithm
                1] and "rmia" [Zarifzadeh2024] need references.
            collate: turns records into a batch; default: PyTorch's.
            batch: number of canaries scored at once.
            confidence: of the bound and the verdict.
            estimators: from dpframe's one-run family; several share the error. Default:
                one-run; with the score "gradient" it guesses equally many canaries in and out.
            engine: Opacus's PrivacyEngine. The claim is then the whole curve of the steps that its
                accountant has counted; refuting it takes fewer canaries than refuting ε at one δ.
                If `epsilon` is smaller than these steps give, the claim is `epsilon`.
                The audit also compares these steps with the observed ones.
            assume: "independent" for a bound and a verdict under the assumption that canaries are
                drawn alike, and that the score of each depends on no coin but its own. The score
                "gradient" supports it; losses of one model do not. Without it the bound holds
                however scores depend on each other.

        Raises:
            CanaryError: the model belongs to another run, was not trained, or cannot be scored; or
                the script changed `records`.
        """
        if digest_of(self.records) != self.state["canaries"]:
            raise CanaryError(
                "canaries.records changed after Canaries was called, so scores could show the "
                "coins instead of what the model learned: change copies of these records only, "
                "and train again"
            )
        scoring.check_model(model)
        auditing.check_claim(engine, epsilon, delta)
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise CanaryError(f"batch: {batch!r} is not a number of canaries, at least 1")
        watched, remarks = self.watched, list[str]()
        if watched is not None:
            findings.check_model(watched, model)
            remarks += findings.warnings_of(
                watched, self._members, epsilon, engine, self._other_inputs
            )
            remarks += findings.doubts_of_epsilon(watched, epsilon, delta, engine)
            remarks += self._of_trainings(watched)
            if watched.gradients is not None:
                remarks += watched.gradients.warnings()
            remarks += self._of_earlier_noise(watched.noise.fingerprint)
        elif self.kind == "random-gradient":
            raise CanaryError("random-gradient canaries need canaries.watch(model, optimizer)")
        else:
            remarks.append(
                Doubt(
                    "the training was not watched, so nothing ties this model to these canaries: "
                    "call canaries.watch(model, optimizer) before it"
                )
            )
        name = score if score is not None else self._usual_score()
        if name == "gradient":
            if watched is None or watched.gradients is None:
                raise CanaryError("score = 'gradient' needs canaries of the kind 'random-gradient'")
            if not watched.rows:
                raise CanaryError(
                    "the watched optimiser made no step in this process: random-gradient canaries "
                    "are scored while the model trains, so train and audit in one process"
                )
            scores = watched.gradients.scores()
        else:
            task = scoring.Scoring(self.records, loss, collate or default_collate, batch)
            scores = task.scores(model, name, references, self._right, self._reference_coins)
            remarks += task.warnings
        gradients = None if watched is None else watched.gradients
        shown = name if isinstance(name, str) else getattr(name, "__name__", "own")
        question: list[Any] = [epsilon, delta, confidence, *map(repr, estimators or ())]
        question += [auditing.history_of(engine), *([assume] if assume else [])]
        look = self._look(_digest(repr(question) + scores.tobytes().hex()))
        price = look * (look + 1) if look > 1 else 1
        remarks += self._of_look(look, confidence)
        found = auditing.judged(
            scores=scores,
            members=self._members,
            epsilon=epsilon,
            engine=engine,
            delta=delta,
            confidence=1 - (1 - confidence) / price,
            estimators=estimators,
            parameters=auditing.guesses_of(name) if estimators is None else {},
            warnings=remarks,
            assume=assume,
            independent=name == "gradient" and gradients is not None and gradients.has_controls,
            step_bets=None if gradients is None else gradients.step_bets(),
            described={
                "run": self.run,
                "kind": self.kind,
                "seed": self.state["seed"],
                "score": shown,
                "look": look,
                "looks": max(look, self._before + len(self._uses.looks)),
                "canaries": self.state["canaries"],
                "watched": None if watched is None else watched.described(),
            },
            limits=[
                *(findings.unchecked(watched) if watched is not None else ()),
                *self._of_augmentation(),
                *LIMITS,
            ],
        )
        if self.kind in (*REPLACING, "random-gradient", "text"):
            found.scores["record"] = self._places
        found |= self._beside_bound()
        self.state["looks"] = list(self._uses.looks)
        self.state["audited"] = len(self._uses.looks)
        self.save()
        if self.folder is not None and scoring.is_first_rank():
            found.save(self.folder)
        return found

    def _beside_bound(self) -> dict[str, Any]:
        """Return fields of the record that stand beside the bound."""
        return {}

    def save(self) -> None:
        """Write the file of the run, on rank 0 only."""
        if self.folder is None or not scoring.is_first_rank():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{FILE}.part"
        part.write_text(json.dumps(self.state, indent=1) + "\n", encoding="utf-8")
        part.replace(self.folder / FILE)

    def _of_augmentation(self) -> list[str]:
        """Say that canaries are not augmented if the other records are."""
        places = range(min(LOOKED_AT_TWICE, len(self._data)))
        try:
            with torch.random.fork_rng([]):
                pairs = [self._inputs_of([self._data[i], self._data[i]]) for i in places]
        except Exception:  # the data may be closed or changed after the training
            return []
        if all(torch.equal(one, other) for one, other in pairs):
            return []
        return [
            "Not checked: the records change at every access (an augmentation), but canaries do "
            "not, so they show the loss of records without it."
        ]

    @property
    def _before(self) -> int:
        """Number of looks of earlier runs at the same coins."""
        return int(self.state["earlier"].get(_digest(self.state["members"]), 0))

    def _look(self, question: str) -> int:
        """Return the number of the look of a question at these coins; note it if it is new."""

        def read() -> dict[str, Any] | None:
            try:
                return _read(self.folder)
            except CanaryError:  # a damaged file must not waste a training run
                return None

        kept = scoring.from_first_rank(read)
        of_file = kept is not None and kept["members"] == self.state["members"]
        earlier = [*self.state["looks"], *(kept.get("looks", ()) if kept and of_file else ())]
        looks = self._uses.looks
        looks += [one for one in dict.fromkeys(earlier) if one not in looks]
        if question not in looks:
            looks.append(question)
        self._asked.add(question)
        return self._before + looks.index(question) + 1

    def _of_look(self, look: int, confidence: float) -> list[str]:
        """Say what a later look at the same coins costs, and on what it depends."""
        if look == 1:
            return []
        why = ""
        if self._before:
            why = " (runs with the same seed toss the same coins: leave out seed=)"
        elif not self._asked.issuperset(self._uses.looks[:look]):
            why = " (by another process or object with the same coins)"
        together = 1 - 1.5 * (1 - confidence)
        return [
            f"these coins were audited before, {look - 1} time{'s' * (look > 2)}: this is "
            f"look {look}, with 1/{look * (look + 1)} of the error, so that all looks together "
            f"hold at {100 * together:.1f} %; this needs a score, a model and options that were "
            f"chosen without the coins; for a new audit train again with new canaries{why}"
        ]

    def _of_trainings(self, watched: Watch) -> list[str]:
        """Doubt a claim about one of several trainings on the same canaries."""
        number = sum(any(rows) for rows in self._uses.trainings)
        if number < 2 or watched.before:  # it continues an earlier process
            return []
        return [
            Doubt(
                f"{number} trainings were watched on these canaries, and the claim covers one: "
                "the choice among them, such as of a learning rate, uses private data that ε does "
                "not cover; make new Canaries for each training"
            )
        ]

    def _of_earlier_noise(self, fingerprint: str | None) -> list[str]:
        """Warn if the noise of the first step equals that of an earlier run in the folder."""
        earlier = self.state["noises"]
        if fingerprint is None or self.state["audited"]:  # it was compared at the first look
            return []
        self.state["noises"] = [*earlier, fingerprint][-MOST_RUNS:]
        if fingerprint not in earlier:
            return []
        return [
            "the noise of the first step equals that of an earlier run in this folder: a seed "
            "was reused, and the difference between two runs shows what the noise should hide"
        ]

    def _resume(self, kept: dict[str, Any]) -> None:
        for name in ("seed", "number", "kind", "canaries", "members"):
            if kept.get(name) != self.state[name]:
                what = {
                    "members": "was altered, or made by an earlier version of dpframe-torch",
                    "canaries": "has other canaries (the data changed, or one of their transforms "
                    "draws random numbers)",
                }.get(name, f"has another {name}")
                raise CanaryError(
                    f"{self.folder}: contains a run that was not audited and {what}; to drop "
                    f"that run, delete its {FILE}; to keep it, choose another folder with out="
                )
        self.state["run"] = kept["run"]

    def _with(self, members: Bools) -> TrainingSet:
        replacing = self.kind in REPLACING
        return with_canaries(self._data, self.records, members, self._places, replacing)

    def _reference_coins(self, number: int) -> Bools:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise CanaryError(f"references: {number!r} is not the number of a reference set")
        source = np.random.SeedSequence([STREAM, int(self.state["seed"]), 5, number])
        return np.asarray(np.random.default_rng(source).random(self.number) < 0.5)

    def _usual_score(self) -> str:
        return {"random-gradient": "gradient", "mislabelled": "contrast"}.get(self.kind, "loss")

    def _fields(self) -> Fields:
        """Return the keys of a record's parts."""
        return fields_of(self.records[0])

    def _inputs_of(self, records: Sequence[Any]) -> list[Tensor]:
        """Return what the model gets of records, by which batches show them."""
        return inputs_of(records, self._fields())

    def _try_scoring(self, model: torch.nn.Module) -> None:
        """Score two canaries in the usual way; raise CanaryError if this cannot be done."""
        scoring.Scoring(self.records[:2], None, default_collate, 2).scores(model, "loss")

    def _held_out(self) -> list[Any]:
        data = self.held_out
        return [] if data is None else [data[i] for i in range(len(data))]

    def _other_inputs(self) -> Iterator[Tensor]:
        """Yield inputs of the training set's other records; if there are many, of some."""
        source = self.train_set.source
        others = source[source >= 0]
        for place in others[:: max(1, len(others) // MOST_COMPARED)]:
            yield self._inputs_of([self._data[int(place)]])[0]

    def _right_labels(self, data: Any, places: Whole) -> list[int] | None:
        """Return the original labels of mislabelled canaries."""
        if self.kind != "mislabelled":
            return None
        label = fields_of(self.records[0]).label
        return [int(data[int(place)][label]) for place in places]


LIMITS = (
    "One run does not show what was computed from private data outside the training: "
    "preprocessing, a normaliser fitted to the data, hyper-parameters, early stopping, the best "
    "of several runs. ε does not cover it.",
    "One run does not show noise that it shares with a run in another folder.",
)


def _digest(members: str) -> str:
    return hashlib.sha256(members.encode()).hexdigest()[:16]


def _audited_before(kept: dict[str, Any] | None) -> dict[str, int]:
    """Return the number of audits in earlier runs of a folder, by the digest of their coins."""
    if kept is None:
        return {}
    found = dict(kept.get("earlier", {}))
    if kept["audited"]:
        coins = _digest(kept["members"])
        found[coins] = found.pop(coins, 0) + int(kept["audited"])
    return dict(list(found.items())[-MOST_RUNS:])


def _read(folder: Path | None) -> dict[str, Any] | None:
    """Return the content of a run's file, or None if there is none."""
    if folder is None:
        return None
    file = folder / FILE
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CanaryError(f"out: {folder} cannot be a folder of runs: {error.strerror}") from None
    except ValueError as error:
        raise CanaryError(f"{file}: not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise CanaryError(f"{file}: not the file of a run of dpframe-torch")
    return cast("dict[str, Any]", found)
