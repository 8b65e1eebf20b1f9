"""How programs are compiled, kept, and found again without being traced."""
