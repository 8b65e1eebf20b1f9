"""Audits of mechanisms with known privacy loss, to count how often bounds exceed it."""
