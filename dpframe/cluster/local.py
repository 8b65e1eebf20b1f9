"""Connections among the processes of `--cluster local:N`, closed to all other processes.

Any process that connects to a scheduler of Dask can run code on its workers, and every user of a
machine can connect to its ports. TLS would need certificates, and a library to make them. So both
ends of a connection first prove that they know a secret of this run; before that, neither end reads
data from the other. Dask loads this module in every process of the cluster.
"""

import asyncio
import contextlib
import hashlib
import hmac
import os
import secrets
from typing import Any

from distributed.comm.registry import backends
from distributed.comm.tcp import TCPBackend, TCPConnector, TCPListener

SCHEME = "dpframe"
VARIABLE = "DPFRAME_CLUSTER_SECRET"
"""Environment variable with the secret of a worker; its child processes do not inherit it."""

NONCE, PROOF = 16, 32  # bytes
SECONDS = 30.0
"""Time for a process to prove that it knows the secret; many may start at once."""

_secret = bytes.fromhex(os.environ.pop(VARIABLE, "")) or secrets.token_bytes(32)


def environment() -> dict[str, str]:
    """Return the variables that a worker process needs."""
    return {VARIABLE: _secret.hex()}


def _proof(side: bytes, *nonces: bytes) -> bytes:
    return hmac.digest(_secret, b"".join((side, *nonces)), hashlib.sha256)


class _Listener(TCPListener):
    prefix = f"{SCHEME}://"

    async def _prepare_stream(self, stream: Any, address: str) -> Any:
        del address
        ours = secrets.token_bytes(NONCE)
        with contextlib.suppress(Exception):  # any error that another process causes
            await stream.write(ours)
            told = await asyncio.wait_for(stream.read_bytes(NONCE + PROOF), SECONDS)
            theirs, proof = told[:NONCE], told[NONCE:]
            if hmac.compare_digest(proof, _proof(b"connects", ours, theirs)):
                await stream.write(_proof(b"listens", theirs, ours))
                return stream
        stream.close()
        return None


class _Connector(TCPConnector):
    prefix = f"{SCHEME}://"

    async def connect(self, address: str, deserialize: bool = True, **about: Any) -> Any:
        connect: Any = super().connect
        comm = await connect(address, deserialize, **about)
        stream, ours = comm.stream, secrets.token_bytes(NONCE)
        try:
            theirs = await asyncio.wait_for(stream.read_bytes(NONCE), SECONDS)
            await stream.write(ours + _proof(b"connects", theirs, ours))
            proof = await asyncio.wait_for(stream.read_bytes(PROOF), SECONDS)
        except Exception as error:
            comm.abort()
            raise OSError("the other end does not belong to this cluster") from error
        if not hmac.compare_digest(proof, _proof(b"listens", ours, theirs)):
            comm.abort()
            raise OSError("the other end does not belong to this cluster")
        return comm


class _Backend(TCPBackend):
    _connector_class, _listener_class = _Connector, _Listener


backends[SCHEME] = _Backend()
