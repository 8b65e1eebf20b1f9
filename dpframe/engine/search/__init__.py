"""Looks for the pair and the event that refute a claim, on the very draws that count as evidence.

A claim is about every neighbouring pair and every event. Pairs that a neighbourhood proposes are
arms; a bandit spends the draws on those that show most; and each round of draws is bet on with what
earlier rounds suggest, so that nothing is paid for the search (see `dpframe.stats.betting`).
"""
