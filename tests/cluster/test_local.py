"""Only processes of a run are let into `--cluster local:N`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")

from distributed.comm import connect, listen
from support.tiers import mostly_slow

from dpframe.cluster import local
from dpframe.common.machine import descendants, running

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def _no_rubbish_for_other_tests() -> Iterator[None]:
    """Dask leaves connections that were refused to the collector of garbage."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


async def answered(attempt: Any) -> list[Any]:
    """Return the bytes that a listener gets from an attempt to reach it."""
    heard: list[Any] = []

    async def handle(comm: Any) -> None:
        heard.append(await comm.read())
        await comm.write("heard")
        await comm.close()

    async with listen(f"{local.SCHEME}://127.0.0.1:0", handle) as listener:
        host, port = listener.get_host_port()
        await attempt(host, port)
    return heard


def test_who_knows_the_secret_is_heard() -> None:
    async def attempt(host: str, port: int) -> None:
        comm = await connect(f"{local.SCHEME}://{host}:{port}", timeout=10)
        await comm.write({"op": "identity"})
        assert await comm.read() == "heard"
        await comm.close()

    assert asyncio.run(answered(attempt)) == [{"op": "identity"}]


@pytest.mark.slow
def test_a_client_of_dask_that_does_not_is_not_heard() -> None:
    async def attempt(host: str, port: int) -> None:
        with contextlib.suppress(Exception):  # it cannot read what it is asked
            await connect(f"tcp://{host}:{port}", timeout=1)

    assert asyncio.run(answered(attempt)) == []


@pytest.mark.parametrize(
    "said", mostly_slow([b"", b"x" * 48, b"\0" * 4096, b"GET / HTTP/1.0\r\n\r\n" * 9], (1,))
)
def test_nothing_that_a_stranger_says_is_read(said: bytes) -> None:
    async def attempt(host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        assert len(await reader.readexactly(local.NONCE)) == local.NONCE
        writer.write(said)
        writer.write_eof()
        assert await reader.read() == b""  # closed, and nothing was told
        writer.close()
        await writer.wait_closed()

    assert asyncio.run(answered(attempt)) == []


def test_an_impostor_is_told_no_secret() -> None:
    """Another user may listen at the address of a former scheduler."""
    told: list[bytes] = []

    async def impostor(reader: Any, writer: Any) -> None:
        writer.write(b"n" * local.NONCE)
        told.append(await reader.readexactly(local.NONCE + local.PROOF))
        writer.write(told[0][local.NONCE :])  # the same bytes, sent back
        told.append(await reader.read())
        writer.close()
        over.set()

    over = asyncio.Event()

    async def attempt() -> None:
        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="does not belong"):
            await local._Connector().connect(f"127.0.0.1:{port}")
        await over.wait()
        server.close()
        await server.wait_closed()

    asyncio.run(attempt())
    assert told[1] == b""
    assert local._secret not in told[0]
    assert local.VARIABLE not in os.environ


SPEC = """
schema = 1
[audit]
name = "t"
trials = 2_000_000_000_000
[pair]
use = "zeros-ones"
[[mechanism]]
use = "laplace"
params.epsilon = 1.0
[[attack]]
use = "majority-vote"
[[estimator]]
use = "precision"
"""
SEMAPHORES = Path("/dev/shm")


def semaphores() -> set[str]:
    """Names of those that belong to this user's processes."""
    return {file.name for file in SEMAPHORES.glob("sem.mp-*")}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "spec.toml").write_text(SPEC)
    words = ["run", "spec.toml", "--cluster", "local:2", "--out", "run", "--quiet"]
    command = [sys.executable, "-m", "dpframe", *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as started:
        yield started
        started.kill()


@pytest.mark.slow
@pytest.mark.skipif(not SEMAPHORES.is_dir(), reason="semaphores are files on Linux only")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_no_semaphore_and_no_process(
    number: signal.Signals, code: int, run: subprocess.Popen[str]
) -> None:
    before = semaphores()
    until = time.monotonic() + 60
    while len(semaphores() - before) < 12 and time.monotonic() < until:
        time.sleep(0.05)
    made = semaphores() - before
    below = descendants(run.pid)
    assert len(made) >= 12
    assert below
    run.send_signal(number)
    assert run.wait(30) == code
    assert not made & semaphores()
    assert not [one for one in below if running(one)]
