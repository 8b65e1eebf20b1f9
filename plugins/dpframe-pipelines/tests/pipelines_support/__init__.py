"""A small synthesizer and a small SQL engine, each right or with one planted mistake."""
