"""Accountants asked the same questions, and compared with an interval of the true ε."""
