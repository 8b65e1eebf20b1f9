"""What there is to see of answers: one view per file, all in NumPy, each row alone."""
