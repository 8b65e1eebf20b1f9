"""Audit sessions: services that answer one query after another, chosen from earlier answers."""

from __future__ import annotations

from dpframe_sessions.searching import search_session
from dpframe_sessions.session import Session
from dpframe_sessions.strategies import learn_policy, play, strategies

__all__ = ["Session", "learn_policy", "play", "search_session", "strategies"]
