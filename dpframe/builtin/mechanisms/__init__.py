"""Mechanisms, one per file."""
