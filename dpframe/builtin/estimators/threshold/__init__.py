"""One threshold, given or chosen by the pilot, and what its error rates say."""
