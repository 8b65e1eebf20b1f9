"""Attacks on trained models and on the observed steps of training."""
