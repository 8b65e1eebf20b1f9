"""Turn a plan into counts and estimates, without a terminal."""
