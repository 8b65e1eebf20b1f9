"""Commands of dpframe that audit a package of which only the name is given.

`proposals` guesses how callables are called, `trials` tries the guesses, `search` looks for pairs
that refute their claims, and `findings` writes tests and assumptions.
"""
