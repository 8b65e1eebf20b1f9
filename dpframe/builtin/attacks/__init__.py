"""Attacks, one per file."""
