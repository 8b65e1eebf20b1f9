"""The program that worker processes run, in this interpreter and in others.

Files here import each other relatively, nothing but the standard library of Python 3.8 otherwise,
and know values of libraries by their attributes: interpreters that have neither dpframe nor NumPy
load this package under another name. `mechanism_sampler` alone needs dpframe and NumPy.
"""
