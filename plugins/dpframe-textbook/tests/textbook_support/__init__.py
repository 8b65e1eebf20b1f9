"""Naive oracles, and comparisons of distributions."""
