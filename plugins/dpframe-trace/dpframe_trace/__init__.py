"""Run a function on neighbouring data with the same noise, and judge each call that draws it."""

from __future__ import annotations

from dpframe_trace.measurements import MeasuredLine, MeasurementAudit, audit_measurements
from dpframe_trace.report import Finding, Line, Trace
from dpframe_trace.tracing import trace, trace_table

__all__ = [
    "Finding",
    "Line",
    "MeasuredLine",
    "MeasurementAudit",
    "Trace",
    "audit_measurements",
    "trace",
    "trace_table",
]
