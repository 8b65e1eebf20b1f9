"""Black boxes: worker processes, the program they run, and the requests they serve."""
