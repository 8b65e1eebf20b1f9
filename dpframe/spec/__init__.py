"""Turn an audit spec in TOML into a validated `Audit`, or report every mistake with its place."""

from dpframe.spec.build import environments_of, load_audit

__all__ = ["environments_of", "load_audit"]
