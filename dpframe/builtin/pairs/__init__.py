"""Pairs of neighbouring datasets, by family."""
