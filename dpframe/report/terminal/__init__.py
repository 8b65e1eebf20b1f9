"""The report in a terminal, from the record alone."""
