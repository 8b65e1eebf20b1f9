"""Neighbourhoods, by family."""
