"""Histograms of the scores, in bins of equal width."""
