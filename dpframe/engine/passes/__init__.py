"""Passes at work, over traced mechanisms and black boxes, until their cells are estimated."""
