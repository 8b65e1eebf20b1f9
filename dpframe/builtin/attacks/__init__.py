"""Attacks, by family."""
