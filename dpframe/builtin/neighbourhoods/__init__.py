"""Neighbourhoods, one per file."""
