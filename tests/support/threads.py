"""Threads of dpframe's own."""

from __future__ import annotations

import threading


def ours() -> set[threading.Thread]:
    """Those that run now. Other tests may have left some: what is new is whatever came since."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("dpframe-")}
