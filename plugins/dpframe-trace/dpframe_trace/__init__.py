"""Run a function on neighbouring data with equal noise, and judge each noise call."""

from __future__ import annotations

from dpframe_trace.tracing import Finding, Line, Trace, trace, trace_table

__all__ = ["Finding", "Line", "Trace", "trace", "trace_table"]
