"""Functions that the tests trace."""
