"""Reads audit specs: TOML in, a validated `Audit` or every mistake with its place out."""

from dpframe.spec.build import audit_from_dict, environments_of, load_audit

__all__ = ["audit_from_dict", "environments_of", "load_audit"]
