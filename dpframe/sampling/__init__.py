"""Random draws: addresses, device programs, and the cache of compiled programs."""
