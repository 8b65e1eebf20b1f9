"""The program that worker processes run, in this interpreter and in others.

Interpreters that have neither dpframe nor NumPy load this package under another name. So its files
import each other relatively, import nothing else but the standard library of Python 3.8, and
recognise values of libraries by their attributes. Only `mechanism_sampler` needs dpframe and NumPy.
"""
