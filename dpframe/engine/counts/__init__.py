"""Counts as they come in, are kept on disk, added up, and remembered."""
