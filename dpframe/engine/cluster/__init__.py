"""Counting on other machines: what travels there, what they do, and who waits for it."""
