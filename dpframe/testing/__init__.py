"""Checks for plugin authors."""
