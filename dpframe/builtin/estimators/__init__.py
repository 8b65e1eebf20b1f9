"""Estimators, one family per file; `choice`, `events` and `histogram_fits` are shared parts."""
