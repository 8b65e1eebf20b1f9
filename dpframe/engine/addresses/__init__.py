"""Which random draw is which: addresses, keys, chunks, and the data that they are of."""
