"""A PostgreSQL server of the tests' own, if one is installed."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path


def missing():
    """Return the reason why no server can be started, or None."""
    if shutil.which("pg_ctl") is None and not _folders():
        return "pg_ctl is not installed"
    if os.getuid() == 0 and _account() is None:
        return "a server refuses to run as root, and there is no account postgres"
    return None


def _folders():
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def _account():
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return None


@contextlib.contextmanager
def server():
    """Start a server on a socket, and yield the text for a connection."""
    # Another account may not enter a temporary folder of root, and paths of sockets are short.
    place = Path(tempfile.mkdtemp(prefix="dpframe-pg-", dir="/tmp"))
    who = {}
    if os.getuid() == 0:
        account = _account()
        os.chown(place, account.pw_uid, account.pw_gid)
        who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    path = os.pathsep.join([*map(str, _folders()), os.environ["PATH"]])

    def run(*command):
        subprocess.run(
            [shutil.which(command[0], path=path), *command[1:]],
            check=True,
            cwd=place,
            stdout=subprocess.DEVNULL,
            env={"PATH": path, "LC_ALL": "C"},
            **who,
        )

    data = str(place / "data")
    try:
        run(
            "initdb",
            "--pgdata",
            data,
            "--auth",
            "trust",
            "--username",
            "audit",
            "--no-sync",
            "--encoding",
            "UTF8",
        )
        options = f"-k {place} -c listen_addresses='' -c fsync=off -c max_connections=40"
        log = str(place / "log")
        run("pg_ctl", "start", "--wait", "--pgdata", data, "--log", log, "--options", options)
        try:
            yield f"host={place} user=audit dbname=postgres"
        finally:
            run("pg_ctl", "stop", "--mode", "immediate", "--pgdata", data)
    finally:
        shutil.rmtree(place, ignore_errors=True)
