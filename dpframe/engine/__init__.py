"""Turn a plan into counts and estimates. Knows no terminal."""
