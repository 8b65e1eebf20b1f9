"""Mistakes that would make wrong verdicts, as changes of the source, and the tests that find them.

The numbers are those of a review that planted them. Each is read literally, in the place where it
would do the most harm; where the same mistake can be made in two places, both are planted, one
after the other, and each has to be found.
"""

from __future__ import annotations

from typing import NamedTuple

ESTIMATORS = "dpframe/builtin/estimators"
APART = "tests/builtin/test_pilot_apart.py"
RANKS = "tests/builtin/test_order_statistics.py"
SHARES = f"{RANKS}::test_all_shares_of_an_estimate_sum_to_at_most_one"


class Mutant(NamedTuple):
    """One change of one file."""

    number: int
    name: str
    file: str
    old: str
    """Stands in the file once."""
    new: str
    tests: tuple[str, ...]
    """The ordinary tests that have to fail."""
    calibrate: bool = False
    """True if `dpframe calibrate` has to find it too."""


MUTANTS = [
    Mutant(
        1,
        "joint test at twice the error",
        "dpframe/stats/joint.py",
        "    v = np.sqrt(1 - w * w)\n",
        "    a = np.minimum(2 * a, 1.0)\n    v = np.sqrt(1 - w * w)\n",
        ("tests/stats/test_joint.py::test_coverage_at_fixed_events",),
        calibrate=True,
    ),
    Mutant(
        2,
        "each limit at twice the error: upper",
        "dpframe/stats/binomial.py",
        "    found = special.betainccinv(k + 1, n - k, a)\n",
        "    a = np.minimum(2 * a, 1.0)\n    found = special.betainccinv(k + 1, n - k, a)\n",
        ("tests/stats/test_binomial.py",),
    ),
    Mutant(
        2,
        "each limit at twice the error: lower",
        "dpframe/stats/binomial.py",
        "    found = special.betaincinv(k, n - k + 1, a)\n",
        "    a = np.minimum(2 * a, 1.0)\n    found = special.betaincinv(k, n - k + 1, a)\n",
        ("tests/stats/test_binomial.py",),
    ),
    Mutant(
        2,
        "each limit at twice the error: where limits share it",
        f"{ESTIMATORS}/threshold.py",
        'upper, "jeffreys": jeffreys_upper}[limits]\n'
        "    return limit(*_counted(ways), error / (2 * len(ways)))\n",
        'upper, "jeffreys": jeffreys_upper}[limits]\n'
        "    return limit(*_counted(ways), error / len(ways))\n",
        (
            "tests/calibration/test_corner.py"
            "::test_built_in_estimators_use_what_they_pay_for_and_no_more",
        ),
    ),
    Mutant(
        3,
        "pilot from the draws that are counted",
        "dpframe/engine/draws.py",
        "self.outputs(PILOT, lane)",
        'self.outputs("eval", lane)',
        (f"{APART}::test_neither_does_it_in_a_run",),
        calibrate=True,
    ),
    Mutant(
        4,
        "events chosen on the counts",
        f"{ESTIMATORS}/order_statistics.py",
        "chosen = choose(pilot, families,",
        "chosen = choose(np.asarray(counts), families,",
        (f"{APART}::test_what_is_chosen_does_not_change_when_only_the_counts_do",),
    ),
    Mutant(
        4,
        "threshold chosen on the counts",
        f"{ESTIMATORS}/threshold.py",
        "cut = best_cut(pilot,",
        "cut = best_cut(np.asarray(counts),",
        (f"{APART}::test_what_is_chosen_does_not_change_when_only_the_counts_do",),
    ),
    Mutant(
        5,
        "the direction of a given threshold is free",
        f"{ESTIMATORS}/threshold.py",
        'upper, "jeffreys": jeffreys_upper}[limits]\n'
        "    return limit(*_counted(ways), error / (2 * len(ways)))\n",
        'upper, "jeffreys": jeffreys_upper}[limits]\n'
        "    return limit(*_counted(ways), error / 2)\n",
        ("tests/builtin/test_threshold_estimator.py",),
    ),
    Mutant(
        6,
        "the direction of ranks is free",
        f"{ESTIMATORS}/order_statistics.py",
        "(1 - REVERSED_SHARE, REVERSED_SHARE)",
        "(1.0, 1.0)",
        (SHARES,),
    ),
    Mutant(
        7,
        "Holm without order",
        "dpframe/stats/joint.py",
        'order = np.argsort(p, kind="stable")',
        "order = np.arange(len(p))",
        ("tests/stats/test_holm.py",),
        calibrate=True,
    ),
    Mutant(
        8,
        "δ ignored",
        "dpframe/interfaces/estimator.py",
        "heights = 1 - delta - both[..., 1]",
        "heights = 1 - both[..., 1]",
        ("tests/test_boxes.py",),
    ),
    Mutant(
        9,
        "ties at a rank count: bins",
        f"{ESTIMATORS}/events.py",
        'np.searchsorted(self.false, ranks - 1, side="right") - 1]',
        'np.searchsorted(self.false, ranks - 1, side="right")]',
        (f"{RANKS}::test_ladders_count_what_lies_beyond_a_rank",),
    ),
    Mutant(
        10,
        "ties at a rank count: raw scores",
        f"{ESTIMATORS}/events.py",
        'np.searchsorted(self.true, thresholds, side="right")',
        'np.searchsorted(self.true, thresholds, side="left")',
        (f"{RANKS}::test_ladders_count_what_lies_beyond_a_rank",),
    ),
    Mutant(
        11,
        "looks are free",
        "dpframe/results/verdict.py",
        "return 1 if number == 1 else number * (number + 1)",
        "return 1",
        ("tests/engine/test_ledger.py",),
        calibrate=True,
    ),
    Mutant(
        12,
        "shares sum to 1.1",
        f"{ESTIMATORS}/order_statistics.py",
        "query, 1 - LADDER_SHARE)",
        "query, 1.0)",
        (SHARES,),
    ),
    Mutant(
        13,
        "raw scores of the pilot are counted: fixed events",
        f"{ESTIMATORS}/order_statistics.py",
        "return values[chosen], values[~chosen]",
        "return values[chosen], values",
        (APART,),
    ),
    Mutant(
        13,
        "raw scores of the pilot are counted: every estimator with a pilot",
        "dpframe/scores/count.py",
        "return values[chosen], values[~chosen]",
        "return values[chosen], values",
        (APART,),
    ),
    Mutant(
        14,
        "the error is divided by claims instead of bounds",
        "dpframe/engine/ledger.py",
        "max(1, plan.certifying_cells)",
        "max(1, plan.m)",
        ("tests/engine/test_run.py", "tests/calibration/test_together.py"),
        calibrate=True,
    ),
    Mutant(
        15,
        "both families of a direction have all of its share",
        f"{ESTIMATORS}/order_statistics.py",
        "(family, share / 2)",
        "(family, share)",
        (SHARES,),
    ),
    Mutant(
        16,
        "each histogram's radius at the full error: bound and p-value",
        f"{ESTIMATORS}/histogram.py",
        "self.radii(found, error / 2)",
        "self.radii(found, error)",
        ("tests/builtin/test_histogram.py",),
    ),
    Mutant(
        17,
        "D and D′ share keys",
        "dpframe/sampling/address.py",
        "for counter in (chunks, np.full_like(chunks, dataset)):",
        "for counter in (chunks, none):",
        ("tests/sampling/test_address.py",),
    ),
    Mutant(
        17,
        "D and D′ share the generators of black boxes",
        "dpframe/sampling/address.py",
        "[*_words(stream, 32).tolist(), chunk, dataset]",
        "[*_words(stream, 32).tolist(), chunk]",
        ("tests/sampling/test_address.py", "tests/workers/test_workers.py"),
    ),
    Mutant(
        18,
        "shares of the events that a pilot chooses sum to 1.8",
        f"{ESTIMATORS}/choice.py",
        "SHARES = (0.2, 0.6, 0.2)",
        "SHARES = (0.6, 0.6, 0.6)",
        (SHARES,),
    ),
    Mutant(
        19,
        "a round chooses its own bet: a bound",
        f"{ESTIMATORS}/betting.py",
        "supposed, group = grouped(share, before.counts.sum(axis=0))",
        "supposed, group = grouped(learned(new, middle), new.sum(axis=0))",
        ("tests/builtin/test_betting.py",),
    ),
    Mutant(
        19,
        "a round chooses its own weights",
        f"{ESTIMATORS}/betting.py",
        "share = learned(before.counts, middle)",
        "share = learned(new, middle)",
        ("tests/builtin/test_betting.py",),
    ),
    Mutant(
        21,
        "the largest sum of weights forgets an atom",
        "dpframe/stats/output_bets.py",
        "sums.max(axis=-1).sum(axis=-1)",
        "sums.max(axis=-1)[..., 1:].sum(axis=-1)",
        ("tests/stats/test_output_bets.py",),
    ),
    Mutant(
        19,
        "a round chooses its own bet: a search",
        "dpframe/search/wealth.py",
        "earned = self._bet_against_claim(number, before, fresh, points, least)",
        "earned = self._bet_against_claim(number, fresh, fresh, points, least)",
        ("tests/search/test_wealth.py",),
    ),
    Mutant(
        20,
        "every pair of a search has half of the wealth",
        "dpframe/search/wealth.py",
        "return 1 / ((number + 1) * (number + 2))",
        "return 1 / 2",
        ("tests/search/test_wealth.py",),
    ),
    Mutant(
        21,
        "a search bets on what it learned from",
        "dpframe/search/arms.py",
        "fresh = self._counted(range(self.drawn, self.drawn + chunks))",
        "fresh = self._counted(range(0, chunks))",
        ("tests/search/test_arm.py",),
    ),
    Mutant(
        22,
        "shards of other code are judged",
        "dpframe/commands/shard.py",
        "        if found != about[key]:",
        "        if False:",
        ("tests/commands/test_shard.py::test_counts_of_other_code_are_not_judged_here",),
    ),
    Mutant(
        22,
        "chunks of two shards count twice",
        "dpframe/engine/checkpoint.py",
        "        if part.window.start < end:",
        "        if False:",
        ("tests/engine/test_checkpoint.py::test_parts_that_do_not_fit_are_refused",),
    ),
    Mutant(
        23,
        "the sum of a checkpoint's file is not looked at",
        "dpframe/engine/checkpoint.py",
        'found["digest"] != digest(found["entries"], 16)',
        "False",
        ("tests/engine/test_checkpoint.py::test_a_file_that_is_not_whole_is_absent_and_replaced",),
    ),
    Mutant(
        24,
        "a tenth of a score is rounding",
        "dpframe/engine/sanity.py",
        "ROUNDING = 1e-4",
        "ROUNDING = 1e-1",
        ("tests/engine/test_sanity.py::test_what_is_more_than_rounding_is_found",),
    ),
    Mutant(
        25,
        "masks are lost",
        "dpframe/workers/program/answer_encoding/libraries.py",
        "    if is_masked(value) and not dtype.names:",
        "    if False:",
        ("tests/workers/test_answer_encoding.py",),
    ),
    Mutant(
        26,
        "impossible counts are believed",
        "dpframe/engine/rounds.py",
        "if array.size and (array.min() < 0 or array.max() > LARGEST):",
        "if False:",
        (
            "tests/engine/test_trust.py::test_impossible_counts_of_an_executor_end_the_run",
            "tests/engine/test_trust.py::test_of_ten_thousand_forged_counts_none_is_accepted",
        ),
    ),
    Mutant(
        26,
        "plausible counts are believed",
        "dpframe/workers/executor.py",
        "return bool(first == second) and told[0] == told[1]",
        "return True",
        ("tests/engine/test_trust.py::test_plausible_counts_that_are_wrong_end_the_run",),
    ),
    Mutant(
        27,
        "what the order of a short sorted file shows is believed",
        f"{ESTIMATORS}/betting.py",
        "        if notes or not said:",
        "        if True:",
        ("tests/builtin/test_betting.py::test_short_sorted_files_refute_no_true_claim",),
    ),
    Mutant(
        27,
        "every look at a file shuffles it anew",
        f"{ESTIMATORS}/betting.py",
        "    if min(map(log_chance_of_order, own)) >= math.log(ORDER_ERROR / 2):",
        "    if False:",
        ("tests/builtin/test_betting.py::test_a_file_that_grows_shows_the_same_bets",),
    ),
    Mutant(
        27,
        "sorted scores are bet on in their order",
        f"{ESTIMATORS}/betting.py",
        "    if min(map(log_chance_of_order, own)) >= math.log(ORDER_ERROR / 2):",
        "    if True:",
        ("tests/builtin/test_betting.py::test_sorted_scores_are_bet_on_in_random_order",),
    ),
    Mutant(
        28,
        "another way of drawing a search is the same question",
        "dpframe/engine/fingerprint.py",
        "[run.stop, run.precision, run.prng, run.chunk, run.seconds if boxed else 0]",
        "[]",
        ("tests/engine/test_ledger.py::test_no_second_look_is_free",),
    ),
    Mutant(
        29,
        "a search certifies more than a claim that stands",
        "dpframe/search/runner.py",
        "return shown if outcome.refuted else min(shown, claimed)",
        "return shown",
        ("tests/search/test_finding.py",),
    ),
    Mutant(
        30,
        "the message of an exception counts",
        "dpframe/workers/program/answer_encoding/codes.py",
        "    if not messages:",
        "    if False:",
        ("tests/workers/test_answer_encoding.py",),
    ),
    Mutant(
        31,
        "what a schema forbids is proposed",
        "dpframe/builtin/neighbourhoods/bench.py",
        "needed <= self.switches and not needed & column.never",
        "needed <= self.switches",
        ("tests/builtin/test_record_edits.py",),
    ),
    Mutant(
        32,
        "padding is a part of a number",
        "dpframe/workers/program/answer_encoding/libraries.py",
        "    return 10, size",
        "    return size, size",
        ("tests/workers/test_answer_encoding.py::test_padding_is_no_part_of_a_number",),
    ),
    Mutant(
        33,
        "drift is not looked for",
        "dpframe/engine/independence.py",
        "if any(blocks.log_chance() < least for blocks in self._blocks.values()):",
        "if False:",
        ("tests/engine/test_independence.py",),
    ),
    Mutant(
        33,
        "drift that is chance is found",
        "dpframe/stats/independence.py",
        "pay.append((likely + orders).ravel())",
        "pay.append((likely + 1.5 * orders).ravel())",
        ("tests/stats/test_drift.py",),
    ),
    Mutant(
        34,
        "estimators are held to one confidence",
        "dpframe/testing/estimators.py",
        "LEVELS = (0.9, 0.99, 0.999)",
        "LEVELS = (0.9,)",
        ("tests/testing/test_broken_promises.py",),
    ),
    Mutant(
        35,
        "shards of other versions are judged with each other",
        "dpframe/commands/shard.py",
        "            if mine != theirs:",
        "            if False:",
        ("tests/commands/test_shard.py::test_what_is_no_whole_run_is_refused",),
    ),
    Mutant(
        36,
        "a search that counted otherwise is the same look",
        "dpframe/search/search.py",
        "        self.settings.look_at(self.cell, self._rounds)",
        "        pass",
        ("tests/engine/test_ledger.py::test_draws_that_nothing_told_to_be_others_are_a_look",),
    ),
    Mutant(
        37,
        "every look at rows has an eighth of the error",
        "dpframe/engine/independence.py",
        "looks = self._row_looks * (self._row_looks + 1)",
        "looks = 8",
        ("tests/engine/test_independence.py::test_looks_at_rows_share_one_error",),
    ),
    Mutant(
        38,
        "kept answers are not checked",
        "dpframe/search/black_box_draws.py",
        "    if not right:",
        "    if False:",
        ("tests/search/test_kept_answers.py::test_forged_answers_are_drawn_again",),
    ),
]
