"""Call a black box once to learn the shape of its outputs."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dpframe.common.types import HostArray
from dpframe.draw import requests, streams
from dpframe.draw.scheduling import LEAST_SECONDS, at_once
from dpframe.draw.worker import codes, exceptions
from dpframe.errors import CellError
from dpframe.interfaces.attack import BEFORE, SECONDS, Answers, Attack
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.spec.audit import Cell, RunSettings

T = TypeVar("T")

ROWS = 2
"""Outputs of the first call: more than one, to distinguish the axis of outputs from the others."""

MORE = 32  # answers of a second call if the first include exceptions; others may be wider


def asking_of(cell: Cell) -> streams.Asking | None:
    """Return the settings of answers of a cell's black box; None for plain arrays of numbers."""
    mechanism: Any = cell.mechanism.value
    raises, timed, limit = cell.mechanism.raises, cell.mechanism.time, cell.mechanism.limit
    releases = mechanism.gives_releases()
    looks = type(cell.attack.value).see is not Attack.see
    alone, only = timed or limit is not None, cell.mechanism.only
    if not (releases or alone or looks or only or cell.search is not None or raises == "answer"):
        return None
    messages = cell.mechanism.messages
    return streams.Asking(raises != "fail", timed, alone and not releases, limit, messages, only)


def first_call(
    mechanism: HostMechanism, cell: Cell, run: RunSettings, source: requests.WorkerSource
) -> streams.Shape:
    """Call a black box in two workers, if there are two, and return the shape of its outputs.

    Both workers make the same calls, so that a later comparison finds black boxes whose noise is
    the same in every process.

    Raises:
        CellError: the black box cannot be used.
    """
    data = call_plugin("the pair", lambda: streams.both_as_made(cell.pair.value))
    load = requests.BlackBoxPayload((mechanism,), streams.for_black_box(data))
    limit = run.seconds
    try:
        with source.lend(load, 2) as workers:
            deadline = None if limit is None else time.monotonic() + max(limit, LEAST_SECONDS)
            trial = _Trial(cell, workers, source, deadline)
            return trial.shape(asking_of(cell), messages=cell.mechanism.messages)
    except requests.DeadlinePassed:
        raise CellError(
            f"the first call of sample did not return within the {limit:g} s of run.seconds"
        ) from None


class _Trial:
    def __init__(
        self,
        cell: Cell,
        workers: Sequence[requests.WorkerLease],
        source: requests.WorkerSource,
        deadline: float | None,
    ) -> None:
        self.workers, self.source = list(dict.fromkeys(workers)), source
        self.deadline = deadline
        self.explicit = cell.mechanism.raises == "answer"
        self.stream, self.chunk = streams.Stream(cell.seed, "shape", 0, streams.PROBE), 0

    def shape(self, asking: streams.Asking | None, *, messages: bool) -> streams.Shape:
        if asking is None:
            arrays = self._call(0, None, ROWS)
            if not arrays[0].answering:
                both = (arrays[0].outputs, arrays[-1].outputs)
                first, second = (streams.Shape(one.shape[1:], one.dtype) for one in both)
                if first != second:
                    raise CellError(f"sample gave {first} in one process and {second} in another")
                return first
            asking = streams.Asking(raises=False, messages=messages)
        asking, sides = self._with_single_answers(asking, lambda terms: self._both(terms, ROWS))
        if any(Answers(one.outputs).raised.any() for side in sides for one in side):
            for side, more in zip(sides, self._both(asking, MORE), strict=True):
                side.extend(more)
            check_sides(sides, self.source.words, explicit=self.explicit)
        check_parts(asking.only, self.source.words)
        drawn = [one for side in sides for one in side]
        widest = max(one.outputs.shape[1] - BEFORE for one in drawn)
        natives = {shape for one in drawn for shape in one.natives}
        return streams.of_answers(asking, widest, natives.pop() if len(natives) == 1 else None)

    def answers(self, asking: streams.Asking, index: int) -> list[requests.Drawn]:
        """Return a few answers on one dataset, more if the first is an exception."""
        asking, drawn = self._with_single_answers(asking, lambda terms: self._call(index, terms, 1))
        if Answers(drawn[0].outputs).raised.all():
            drawn += self._call(index, asking, MORE if asking.limit is None else ROWS)
        return drawn

    def _with_single_answers(
        self, asking: streams.Asking, call: Callable[[streams.Asking], T]
    ) -> tuple[streams.Asking, T]:
        """Make a call, again for one answer at a time if a batch raises; return the terms used."""
        try:
            return asking, call(asking)
        except requests.RaisedError:
            if asking.one or not asking.raises:
                raise
            asking = asking._replace(one=True)
            return asking, call(asking)

    def _both(self, asking: streams.Asking, rows: int) -> list[list[requests.Drawn]]:
        return [self._call(index, asking, rows) for index in (0, 1)]

    def _call(self, index: int, asking: streams.Asking | None, rows: int) -> list[requests.Drawn]:
        chunk, self.chunk = self.chunk, self.chunk + 1
        request = requests.Request(0, index, self.stream, index, chunk, chunk + 1, rows, asking)

        def call(worker: requests.WorkerLease) -> requests.Drawn:
            parts = [*worker.draw(request, self.deadline)]
            outputs = np.concatenate([part.outputs for part in parts])
            return parts[-1]._replace(outputs=outputs)

        return at_once([partial(call, one) for one in self.workers], self.source.most)


def try_own_data(
    mechanism: HostMechanism,
    data: Sequence[Any],
    cell: Cell,
    source: requests.WorkerSource,
    deadline: float | None,
) -> None:
    """Call a black box a few times on the user's own data, on D, or on D and D′.

    As in `first_call`, two workers make the same calls.

    Raises:
        CellError: the black box cannot be used; see `check_sides`.
        DeadlinePassed: the deadline has passed.
    """
    asking = asking_of(cell)
    if asking is None or not asking.raises:
        return
    both = data[0], data[-1]
    load = requests.BlackBoxPayload((mechanism,), streams.for_black_box(both))
    with source.lend(load, 2) as workers:
        trial = _Trial(cell, workers, source, deadline)
        sides = [trial.answers(asking, index) for index in range(len(data))]
    check_sides(sides, source.words, explicit=trial.explicit)
    check_parts(asking.only, source.words)


def check_sides(
    sides: Sequence[Sequence[requests.Drawn]], words: Mapping[int, str], *, explicit: bool
) -> None:
    """Raise CellError if a black box raises on the user's own data in place of giving answers.

    `sides` has answers on D, or on D and on D′. A black box that raises on one side alone may leak,
    unless the exception is one of a mistake in the user's code. With `explicit`, the user says that
    exceptions are answers; only the same exception everywhere is an error then.
    """
    answers = [Answers(np.concatenate([one.outputs[:, :BEFORE] for one in side])) for side in sides]
    number = sum(len(each.kinds) for each in answers)
    kinds = [set(each.kinds.tolist()) if each.raised.all() else set() for each in answers]
    every = set[int]().union(*kinds)
    if all(kinds) and (len(every) == 1 or not explicit or len(kinds) == 1):
        on_which = "on your own table" if len(kinds) == 1 else "on D and D′"
        raise CellError(
            only_exceptions(f"all of the first {number} answers", every, words, on_which)
        )
    for side, own, name in zip(answers, kinds, ("D", "D′"), strict=False):
        if own and not explicit and all(words.get(codes.code_of_slip(kind)) for kind in own):
            first = f"all of the first {len(side.kinds)} answers"
            problem = only_exceptions(first, own, words, f"on {name}")
            raise CellError(
                f"{problem}; this looks like a mistake in the code: fix it or, if the mechanism "
                'does so, set raises to "answer"'
            )


def check_parts(only: Iterable[str], words: Mapping[int, str]) -> None:
    """Raise CellError if no answer had one of the parts that alone count: it may be misspelt."""
    for path in only:
        if codes.code_of_part(path) not in words:
            raise CellError(f"no answer of the trial calls has the part {path!r} of outputs.only")


def check_names(kinds: Iterable[int], words: Mapping[int, str]) -> None:
    """Raise CellError if an exception shows a name in the user's code that does not exist."""
    for kind in kinds:
        if words.get(codes.code_of_slip(kind)) == exceptions.MISSPELT:
            raised = words.get(codes.code_of_trace(kind), words.get(kind, "an exception"))
            raise CellError(f"a name in the code does not exist, so nothing is tested: {raised}")


def one_exception(answers: Iterable[Answers]) -> int | None:
    """Return the kind of all answers if they are exceptions of a single kind, else None."""
    kinds = np.unique(np.concatenate([each.kinds for each in answers]))
    return int(kinds[0]) if len(kinds) == 1 and kinds[0] & np.uint64(1) else None


def different(both: Sequence[HostArray]) -> set[tuple[int, int]]:
    """Return the codes of kind and value of all answers, of two if there are more.

    `both` has rows of answers on D and on D′. The time of an answer is left out.
    """
    return {(int(rows[at, 0]), int(rows[at, 1])) for rows in both for at in _two(rows[:, :SECONDS])}


def different_outputs(outputs: HostArray, words: dict[int, str]) -> set[tuple[int, int]]:
    """Return what `different` does, for arrays of numbers, shape [n, *dims]; note their texts."""
    differing: set[tuple[int, int]] = set()
    rows = np.frombuffer(outputs.tobytes(), np.uint8).reshape(len(outputs), outputs[:1].nbytes)
    for at in _two(rows):
        value = codes.code(rows[at].tobytes())
        differing.add((0, value))
        if (text := codes.in_words(outputs[at])) is not None:
            words.setdefault(value, text)
    return differing


def _two(rows: HostArray) -> list[int]:
    """Return the places of the first row and of the first other one, if there are any."""
    other = (rows != rows[:1]).any(axis=1)
    return [0, *([int(other.argmax())] if other.any() else [])][: len(rows)]


def one_answer(
    answers: set[tuple[int, int]], name: str, number: int, words: Mapping[int, str]
) -> str | None:
    """Return why nothing was tested if a black box gave the same answer in all calls; else None.

    `answers` are those of `different`, `name` is that of the black box, `number` the calls.
    """
    if len(answers) != 1:
        return None
    ((kind, value),) = answers
    answer = words.get(value) or f"the same {words.get(kind, 'answer')}"
    answer += words.get(codes.code_of_print(value), "")
    advice = "did it forget `return`? If not" if answer.startswith("None") else "if this is right"
    return (
        f"{name} returned {answer} in all {number:,} runs, so nothing was tested; {advice}, set "
        "constant to true"
    )


MOST_DESCRIBED = 3  # exceptions that a reason describes


def only_exceptions(
    which: str, kinds: Iterable[int], words: Mapping[int, str], where: str = "on D and D′"
) -> str:
    """Return the message that all answers were exceptions, and where these were raised."""
    descriptions = []
    for kind in sorted(set(kinds)):
        kind_words = words.get(kind, "an exception").removeprefix("raises ")
        descriptions.append(words.get(codes.code_of_trace(kind), kind_words))
    more = (
        f", and {len(descriptions) - MOST_DESCRIBED} more"
        if len(descriptions) > MOST_DESCRIBED
        else ""
    )
    return (
        f"{which} {where} were exceptions, so nothing is tested: "
        f"{'; '.join(descriptions[:MOST_DESCRIBED])}{more}"
    )
