"""Pure functions on NumPy arrays, in float64. Imports nothing from dpframe."""
