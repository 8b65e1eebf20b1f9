"""Reads records: verdicts, the file on disk, and what a person sees."""
