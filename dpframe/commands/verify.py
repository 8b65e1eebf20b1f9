"""Draw a random share of a run again: the body of `dpframe verify`."""

import dataclasses
import math
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpframe.commands.audit import make_plan, make_record
from dpframe.common import trees
from dpframe.common.text import shown
from dpframe.count import checkpoint, rounds
from dpframe.count.checkpoint import BLOCKS, Saved, Store
from dpframe.count.plan import Pass
from dpframe.count.work import PassWork
from dpframe.draw.local_executor import source_of
from dpframe.draw.streams import Segment, window_of, windowed
from dpframe.engine.ledger import Ledger
from dpframe.engine.run import Runner, quiet, threads_here
from dpframe.errors import CellError, SpecError
from dpframe.report.number_format import plural
from dpframe.results import store as records
from dpframe.results.model import Record
from dpframe.spec.audit import Audit

FALSE_ALARM = 1e-3  # probability that fresh draws accuse an honest run, all comparisons together
FORGED = (0.01, 0.05, 0.2)  # shares of forged blocks whose probability of detection is printed
MOST_NAMED = 5  # cells that are listed for each reason why they were not checked
CHANGES = {"seconds", "looks", "notes", "reason"}  # fields that differ between equal runs
NOT_CHOSEN = "made without --blocks, and not among the passes that were redrawn"
NOT_REPEATED = "takes no seed, and is not a decision that fresh draws could test"
OTHER_BLOCKS = "its blocks do not cover all draws, or come from other code or versions"


@dataclasses.dataclass
class Verified:
    """The extent of a verification, and what differs."""

    blocks: int = 0  # windows of the draws, or whole passes and searches
    drawn: int = 0  # blocks that were drawn again
    checked: set[str] = dataclasses.field(default_factory=set)
    """Ids of the cells that were derived again, or tested."""
    differences: list[str] = dataclasses.field(default_factory=list)
    unchecked: dict[str, str] = dataclasses.field(default_factory=dict)
    """Why a cell was not checked, by its id."""

    def lines(self) -> Iterator[str]:
        """Yield the result in words."""
        outcome = "differ from those computed here" if self.differences else "agree"
        yield f"{plural(len(self.checked), 'cell')} checked: counts, bounds and verdicts {outcome}"
        yield from (f"differs: {difference}" for difference in self.differences)
        for reason in sorted(set(self.unchecked.values())):
            cells = [cell for cell, own in self.unchecked.items() if own == reason]
            yield f"{plural(len(cells), 'cell')} NOT CHECKED: {reason}:"
            yield from (f"  {cell}" for cell in cells[:MOST_NAMED])
            if len(cells) > MOST_NAMED:
                yield f"  and {len(cells) - MOST_NAMED} more"
        if self.blocks:
            seen = [(100 * f, 1 - (1 - f) ** self.drawn) for f in FORGED]
            chances = (f"{share:.0f} % with probability {p:.3g}" for share, p in seen)
            yield f"{self.drawn} of {self.blocks} blocks drawn again and compared bit for bit"
            yield f"forged blocks would be detected: {', '.join(chances)};"
            yield f"a share f of forged blocks goes unnoticed with probability (1 − f)^{self.drawn}"


def verify(
    directory: Path, share: float, spec: Path | None, load: Callable[[Path, list[str]], Audit]
) -> Verified:
    """Check a run against draws made here.

    Args:
        directory: of the run.
        share: share of the blocks to draw again, at least one; for a black box that takes no
            seed, the share of its draws.
        spec: path of the spec; default: its path when the run was made.
        load: reads a spec with overrides.

    Raises:
        RecordError: there is no record, or it contradicts itself.
        OutputError: stored blocks are missing or overlap.
        SpecError: the spec is not the one of the record.
    """
    record, verified = records.load(directory), Verified()
    loaded = load(spec or Path(record.spec.path), record.spec.overrides)
    if loaded.source.sha256 != record.spec.sha256:
        raise SpecError([f"{loaded.source.path}: not the spec of this record; pass it with --spec"])
    with (
        tempfile.TemporaryDirectory() as sums,
        source_of(loaded.cells, loaded.interpreters) as workers,
    ):
        checkpoint.merge({1: directory / BLOCKS}, 1, Path(sums))
        plan = make_plan(loaded, workers)
        ledger = Ledger(directory)
        runner = Runner(plan, quiet, Store(), threads_here(plan), ledger, workers)
        blocks = [partial(runner.search, [cell]) for cell in plan.searches]
        for the_pass in plan.passes:
            kept = checkpoint.read_entries(directory / BLOCKS / checkpoint.file_of(the_pass.stream))
            if not getattr(the_pass.mechanisms[0], "seedable", True):
                _test(runner, the_pass, share, record, verified)
            elif kept and not the_pass.anytime:
                try:
                    blocks += _windows(runner, the_pass, kept, Store(Path(sums)), verified)
                except (CellError, checkpoint.MixedProgress) as error:
                    verified.unchecked |= {cell.id: str(error) for cell, _ in the_pass.cells}
            else:
                blocks.append(partial(runner.run_all, [the_pass]))
        verified.blocks = len(blocks)
        windows = Counter(id(block.args[0]) for block in blocks if block.func is _draw)
        large = [block for block in blocks if _is_large(block, max(windows.values(), default=1))]
        usual = [block for block in blocks if block not in large]
        verified.drawn = min(len(usual), max(1, math.ceil(share * len(blocks))))
        for draw in [*large, *random.SystemRandom().sample(usual, verified.drawn)]:
            draw()
        runner.check_without_draws()
    cells = [*plan.searches, *(cell for one in plan.passes for cell, _ in one.cells)]
    planned = {cell.id for cell in cells} | runner.results.keys()
    again = {name: cell for name, cell in runner.results.items() if name not in verified.unchecked}
    derived = make_record(plan, [again.get(cell.id, cell) for cell in record.cells], 0.0)
    recorded, recomputed = (
        {cell.id: cell.model_dump(mode="json") for cell in one.cells} for one in (record, derived)
    )
    expected = {name: recomputed.get(name, "planned") for name in planned}
    verified.differences += _differences(recorded, expected, "cell")
    verified.differences += _differences(record.summary.m, derived.summary.m, "m")
    verified.checked |= again.keys()
    unchosen = planned - verified.checked - verified.unchecked.keys()
    verified.unchecked |= dict.fromkeys(sorted(unchosen), NOT_CHOSEN)
    return verified


def _windows(
    runner: Runner, the_pass: Pass, kept: dict[str, Saved], sums: Store, verified: Verified
) -> list[partial[None]]:
    """Estimate a pass from the sum of its windows; return a call for each that redraws it."""
    work = runner.work_on(the_pass)
    work.prepare()
    work.begin()
    counts, done = checkpoint.resume(the_pass, work.zeros, work.keys, sums)
    if done != (the_pass.trials // the_pass.rows,) * 2:
        raise CellError(OTHER_BLOCKS)
    work.tally = rounds.PrefixCounts(counts, done, the_pass.rows)
    for index, tail in work.units():
        work.add(index, *work.count(index, tail), 0.0)
    runner.estimate(work)
    chunks = {window[1] for key in kept if (window := window_of(key)) is not None}
    return [partial(_draw, work, one, kept, verified) for one in sorted(chunks, key=repr)]


def _is_large(block: Any, parts: int) -> bool:
    """True if a block is a window twice as long as `--blocks` makes them.

    Such windows are always drawn again: a forger could join most draws in one window, which counts
    as one block.
    """
    if block.func is not _draw:
        return False
    work, chunks, *_ = block.args
    whole: int = work.the_pass.trials // work.the_pass.rows
    return len(chunks) > 2 * math.ceil(whole / parts)


def _draw(work: PassWork, chunks: range, kept: dict[str, Saved], verified: Verified) -> None:
    """Draw a window again, and compare its counts in all cells of its pass."""
    segment = Segment(chunks.start, chunks.stop, work.the_pass.rows)
    try:
        counts: Any = trees.map(np.add, *(work.count(index, segment)[1] for index in (0, 1)))
    except CellError as error:
        verified.unchecked |= {cell.id: str(error) for cell, _ in work.the_pass.cells}
        return
    for cell, place in work.the_pass.cells:
        again = checkpoint.saved(counts, (chunks.stop, chunks.stop), place)
        if kept.get(windowed(work.keys[cell.id], chunks)) != again:
            verified.differences.append(f"{cell.id}: chunks {chunks.start} to {chunks.stop - 1}")


def _test(runner: Runner, the_pass: Pass, share: float, record: Record, verified: Verified) -> None:
    """Test decisions of a black box without a seed against fresh ones [Fisher1922]."""
    from scipy.stats import fisher_exact

    fresh = Runner(runner.plan, quiet, Store(), runner.threads, Ledger(), runner.source)
    trials = max(1, math.ceil(share * the_pass.trials))
    fresh.run_all([dataclasses.replace(the_pass, trials=trials)])
    recorded = {cell.id: cell.counts for cell in record.cells}
    for cell, _ in the_pass.cells:
        again = fresh.results[cell.id]
        fixed = again.statistic.get("name") in ("DecisionCounts", "ThresholdCounts")
        if not fixed or cell.attack.value.learns() or not (again.counts and recorded.get(cell.id)):
            verified.unchecked[cell.id] = NOT_REPEATED
            continue
        verified.checked.add(cell.id)
        for name, few, many in zip(("D", "D′"), again.counts, recorded[cell.id], strict=True):
            p_value = fisher_exact(np.array([few, many])).pvalue
            if p_value <= FALSE_ALARM / (2 * len(record.cells)):
                verified.differences.append(
                    f"{cell.id} on {name}: fresh draws give p = {p_value:.2g}"
                )


def _differences(one: Any, other: Any, at: str) -> Iterator[str]:
    """Yield where two values differ, floats beyond rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted((one.keys() | other.keys()) - CHANGES):
            yield from _differences(one.get(key), other.get(key), f"{at}: {key}")
    elif isinstance(one, list) and isinstance(other, list):
        yield from _differences(dict(enumerate(one)), dict(enumerate(other)), at)
    elif not (isinstance(one, float) and isinstance(other, float)):
        yield from [f"{at} is {shown(one)}, computed here: {shown(other)}"] if one != other else []
    elif not math.isclose(one, other, rel_tol=1e-9):
        yield f"{at} is {one}, computed here: {other}"
