"""Releases by pure-ldp: the report of a user who has one of several categories."""

from __future__ import annotations

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from library_tables import codes
from pure_ldp import frequency_oracles as oracles


def prepare(params, data):
    """Return a function that makes one release of the client `params["client"]`."""
    epsilon, size = params["epsilon"], len(params["categories"])
    at = codes({**params, "clean": True}, data)[0]
    more = {"UEClient": {"use_oue": params.get("optimal", False)}}
    more["LHClient"] = {"use_olh": params.get("optimal", False)}
    make = getattr(oracles, params["client"])
    client = make(epsilon, size, index_mapper=int, **more.get(params["client"], {}))
    return lambda: client.privatise(at)
