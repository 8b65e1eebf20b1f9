"""The record of a run: what is in it, how it is judged, written and read."""
