"""Turn an audit spec in TOML into a validated `Audit`, or report every mistake with its place."""

from dpframe.spec.build import audit_from_dict, environments_of, load_audit

__all__ = ["audit_from_dict", "environments_of", "load_audit"]
