"""Audit sessions: services that answer one query after another, chosen from earlier answers."""

from __future__ import annotations

from dpframe_sessions.searching import search_session
from dpframe_sessions.session import Session
from dpframe_sessions.strategies import play, strategies
from dpframe_sessions.witness import SessionViolationError, Witness

__all__ = [
    "Session",
    "SessionViolationError",
    "Witness",
    "play",
    "search_session",
    "strategies",
]
