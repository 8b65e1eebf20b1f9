"""Passes over shared draws: score rows, count scores, keep the counts."""
