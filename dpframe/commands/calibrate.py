"""Count how often bounds exceed a known truth: the body of `dpframe calibrate`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.commands.audit import load, make_plan, peak_rss_bytes, plugin_records, silent, versions
from dpframe.errors import DpframeError
from dpframe.results.build import choice_record, skip_record, spec_record
from dpframe.results.model import SCHEMA
from dpframe.stats.binomial import exceedance
from dpframe.testing.corner import BROKEN, KEPT, TRUTH_ROUNDING, corner_row
from dpframe.testing.experiment import experiments_of, repeated

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from dpframe.commands.audit import Display
    from dpframe.interfaces.plugin import Plugin
    from dpframe.spec.audit import Audit, Cell
    from dpframe.testing.experiment import CalibratedCell, Estimates, Experiment, Experiments

REPEATS = 10_000

# Overrides of every calibration: each bound holds alone, and `calibrate` makes the repeats.
SETTINGS = ('audit.multiplicity="none"', "audit.repeats=1")

# All intervals of a calibration together fail with at most this probability, so a kept promise is
# rarely reported as broken, even among many.
FALSE_ALARMS = 0.01


def calibrate(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    repeats: int = REPEATS,
    trials: Sequence[int] = (),
    overrides: Sequence[str] = (),
    seed: int | None = None,
    plugins: Iterable[type[Plugin]] = (),
    workers: int | None = 1,
) -> dict[str, Any]:
    """Repeat small audits of mechanisms with known true ε, and count bounds above it.

    Every repeat has its own draws. They are those of `dpframe run` with the same number of repeats
    and with the chunk and pilot in the result.

    Args:
        spec: path of a TOML file, or the same content as a mapping; cells of a mechanism that
            does not know its `truth` are left out.
        repeats: how often each audit is repeated.
        trials: draws per dataset, one calibration for each; default: the spec's.
        overrides: "KEY=VALUE" as `dpframe run --set` takes them.
        seed: instead of the spec's.
        plugins: plugin classes in addition to the installed plugins.
        workers: processes; None is one per core. More than one needs a script that can be imported,
            as always with processes.

    Returns:
        The content of `dpframe calibrate --json`: a row for each mechanism, number of trials,
        attack and estimator.

    Raises:
        SpecError: the spec cannot be run; lists every mistake.
        DpframeError: nothing can be calibrated, or so few repeats could show nothing.
    """
    settings = [*overrides, *SETTINGS]
    plugins = tuple(plugins)
    loaded = [load(spec, settings, n, seed, plugins) for n in (trials or (None,))]
    return calibration(loaded, repeats, workers=workers)


def calibration(
    loaded: Sequence[Audit], repeats: int, *, workers: int | None = None, display: Display = silent
) -> dict[str, Any]:
    """Calibrate the estimators of audits that were loaded with `SETTINGS`.

    `loaded` has at least one audit; they differ in their trials. `workers` is the number of
    processes, by default one per core. The display counts experiments and estimates.
    """
    started = time.perf_counter()
    experiments = experiments_of([make_plan(audit) for audit in loaded])
    if not experiments.experiments:
        reasons = dict.fromkeys(skip.reason for skip in experiments.skipped)
        reasons |= dict.fromkeys(reason for _, reason in experiments.failed)
        raise DpframeError("nothing to calibrate: " + "; ".join(reasons))
    error = FALSE_ALARMS / sum(len(one.parts) for one in experiments.experiments)
    _check_repeats(repeats, experiments, error)
    outcomes = _repeat(experiments, repeats, workers, display)
    rows = [
        _row(experiment, part, outcome, error)
        for experiment, given in zip(experiments.experiments, outcomes, strict=True)
        for part, outcome in zip(experiment.parts, given, strict=True)
    ]
    rows += [_failed_row(cell, reason) for cell, reason in experiments.failed]
    first = loaded[0]
    corners = [row for one in experiments.certifying() if (row := corner_row(*one)) is not None]
    promises = [row["promise"] for row in (*rows, *corners)]
    return {
        "schema": SCHEMA,
        "kind": "calibration",
        "spec": spec_record(first.source).model_dump(),
        "audit": {"name": first.name, "multiplicity": "none"},
        "repeats": repeats,
        "interval_confidence": 1 - FALSE_ALARMS,
        "environment": {**versions(), "prng": experiments.experiments[0].prng},
        "seed": first.cells[0].seed,
        "plugins": [plugin.model_dump() for plugin in plugin_records(first)],
        "rows": rows,
        "corners": corners,
        "skipped": [skip_record(skip).model_dump() for skip in experiments.skipped],
        "summary": {
            **{word: promises.count(word) for word in (KEPT, BROKEN)},
            "promises_nothing": sum(r["status"] == "ok" and not r["certified"] for r in rows),
            "failed": sum(row["status"] == "failed" for row in rows),
            "seconds": time.perf_counter() - started,
            "peak_rss_bytes": peak_rss_bytes(),
        },
    }


def exit_code(result: dict[str, Any]) -> int:
    """Return the exit code: 3 if a row could not be run, 1 if a promise is broken, else 0."""
    if result["summary"]["failed"]:
        return 3
    return int(result["summary"][BROKEN] > 0)


def _check_repeats(repeats: int, experiments: Experiments, error: float) -> None:
    """Raise DpframeError if the repeats are too few for any estimator to fail."""
    if repeats < 1:
        raise DpframeError(f"--repeats: {repeats} must be at least 1")
    for part in (part for experiment in experiments.experiments for part in experiment.parts):
        promised = 1 - part.cell.confidence
        if part.certifies and exceedance(0, repeats, promised, error).alarm is None:
            raise DpframeError(
                f"--repeats: {repeats} are too few: even if every bound exceeded the truth, it "
                f"could be due to chance at a confidence of {part.cell.confidence:g}"
            )


def _repeat(
    experiments: Experiments, repeats: int, workers: int | None, display: Display
) -> list[list[Estimates]]:
    remaining = [repeats * len(one.parts) for one in experiments.experiments]
    done = 0
    with display(len(remaining), sum(remaining)) as progress:

        def on_block(number: int, estimates: int) -> None:
            nonlocal done
            remaining[number] -= estimates
            done += estimates
            cell = experiments.experiments[number].parts[0].cell
            label = f"{cell.mechanism.label}, n = {cell.trials}"
            progress(cells_done=remaining.count(0), draws_done=done, label=label)

        return repeated(experiments.experiments, repeats, workers=workers, on_block=on_block)


NO_NUMBERS: dict[str, Any] = dict.fromkeys(
    (
        *("exceeded", "repeats", "rate", "rate_low", "rate_high", "alarm"),
        *("median_epsilon", "mean_lower", "share", "promise"),
    )
)


def _row(
    experiment: Experiment, part: CalibratedCell, outcome: Estimates, error: float
) -> dict[str, Any]:
    """Return the row of one part of a repeated audit.

    `error` is 1 − confidence of the interval around the rate of exceedances.
    """
    cell, truth = part.cell, part.epsilon
    reads_pilot = not part.raw and cell.estimator.value.statistic().needs_pilot()
    row = {
        **_named(cell, part.raw),
        "fit": experiment.run.fit or 0 if cell.attack.value.learns() else 0,
        "pilot": experiment.run.pilot or 0 if reads_pilot else 0,
        "chunk": experiment.the_pass.rows,
        "truth": {"kind": part.truth.kind, "epsilon": truth},
        "certified": part.certifies,
    }
    if outcome.reason is not None:
        return {**row, **NO_NUMBERS, "status": "failed", "reason": outcome.reason}
    # The lower median, because the mean of a finite and an infinite value would be infinite.
    median = float(np.sort(outcome.points)[(len(outcome.points) - 1) // 2])
    row |= {**NO_NUMBERS, "status": "ok", "reason": None, "median_epsilon": median}
    lows = outcome.lows[~np.isnan(outcome.lows)]
    if not len(lows):  # neither bounds nor intervals
        return row
    exceeded = int(np.count_nonzero(lows > truth + TRUTH_ROUNDING * max(1.0, truth)))
    exceedances = exceedance(exceeded, len(lows), 1 - cell.confidence, error)
    mean = float(lows.mean())
    return row | {
        "exceeded": exceeded,
        "repeats": len(lows),
        "rate": exceedances.rate,
        "rate_low": exceedances.low,
        "rate_high": exceedances.high,
        "alarm": exceedances.alarm if part.certifies else None,
        "mean_lower": mean,
        "share": mean / truth if truth > 0 else None,
        "promise": None if not part.certifies else BROKEN if exceedances.broken else KEPT,
    }


def _failed_row(cell: Cell, reason: str) -> dict[str, Any]:
    """Return the row of a cell that could not be run."""
    certified = cell.estimator.value.certifies_against(cell.claim)
    rest = {"fit": 0, "pilot": 0, "chunk": None, "truth": None, "certified": certified}
    return {**_named(cell, False), **rest, **NO_NUMBERS, "status": "failed", "reason": reason}


def _named(cell: Cell, raw: bool) -> dict[str, Any]:
    return {
        "mechanism": choice_record(cell.mechanism).model_dump(),
        "pair": {"use": cell.pair.use, "params": cell.pair.value.params()},
        "attack": choice_record(cell.attack).model_dump(),
        "estimator": choice_record(cell.estimator).model_dump(),
        "reads": "scores" if raw else "counts",
        "swept": dict(cell.swept),
        "trials": cell.trials,
        "delta": cell.delta,
        "confidence": cell.confidence,
        "assumption": cell.estimator.value.assumption,
    }
