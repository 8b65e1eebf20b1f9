"""Estimators from the canaries of one run."""
