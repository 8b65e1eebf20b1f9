"""The record of a run: its model, its verdicts, and its file."""
