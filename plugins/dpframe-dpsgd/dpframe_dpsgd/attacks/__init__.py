"""Attacks on trained models, and on what was seen of their training."""
