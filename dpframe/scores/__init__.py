"""Scores made elsewhere: files and counts."""
