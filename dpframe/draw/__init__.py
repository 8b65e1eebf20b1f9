"""Rows of mechanisms: traced programs, worker processes of black boxes, and clusters."""
