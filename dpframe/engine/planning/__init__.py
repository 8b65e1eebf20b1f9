"""What a run will do, known before it draws: passes, lanes, memory, digests."""
