"""Scores made elsewhere: read from files, counted."""
