"""How many releases a black box is asked for, before it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.engine.planning.budgets import resolved
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.engine.planning.plan import Pass, Plan
    from dpframe.spec.audit import RunSettings


def planned_draws(plan: Plan) -> int:
    """Releases that a run makes, both datasets together: at most, where it searches."""
    run = plan.audit.run
    passes = sum(planned_calls(each, run) or each.draws for each in plan.passes)
    return passes + sum(2 * cell.trials for cell in plan.searches)


def planned_calls(the_pass: Pass, run: RunSettings) -> int:
    """Releases that a pass will ask a black box for, from the first to the last; else 0.

    Args:
        the_pass: of any mechanism.
        run: the settings of the audit.
    """
    if not isinstance(the_pass.mechanisms[0], HostMechanism):
        return 0
    run = resolved(run, the_pass.mechanisms[0], the_pass.trials)
    streams = [the_pass.trials]
    attacks = [attack for scorer in the_pass.scorers for attack in scorer.attacks]
    if any(attack.has_fit() and attack.learns() for attack in attacks):
        streams.append(run.fit or 0)
    if the_pass.pilots:
        streams.append(run.pilot or 0)
    whole = sum(-(-wanted // the_pass.rows) for wanted in streams)  # a tail is drawn whole
    return (2 * len(the_pass.mechanisms) * whole + extra_chunks(the_pass)) * the_pass.rows


def extra_chunks(the_pass: Pass) -> int:
    """Chunks that only show whether draws depend on their address, and on nothing else."""
    first = the_pass.mechanisms[0]
    if isinstance(first, HostMechanism) and first.seedable:
        return 4 + len(the_pass.mechanisms) - 1
    return 2
