"""Search for a pair and an event that refute a claim, on the draws that count as evidence."""
