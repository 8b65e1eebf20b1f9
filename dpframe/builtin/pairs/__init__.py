"""Pairs of neighbouring datasets, one per file."""
