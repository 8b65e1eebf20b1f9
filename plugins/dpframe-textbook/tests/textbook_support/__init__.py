"""Naive oracles, and comparisons of laws."""
