"""Mechanisms, by family."""
