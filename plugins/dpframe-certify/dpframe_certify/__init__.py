"""The command `dpframe certify`: write certificates that certcheck.py checks without dpframe."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from dpframe import Record, audit, load
from dpframe.plugins import DpframeError, answer_at, hookimpl
from dpframe_certify.registry import entry
from dpframe_certify.scores import canonical, record_of_scores

RECORD = ("environment", "environments", "plugins")
CELL = ("id", "repeat", "seed", "draw_group", "mechanism", "pair", "attack", "estimator")
CLAIM = ("kind", "parameters", "profile")
ESTIMATE = ("assumption", "delta", "confidence", "epsilon_lower", "evidence")
SPEC = ("sha256", "text", "overrides")
VERDICTS = ("violated", "consistent", "inconclusive")
BASIS = ("confidence", "look", "resolution", "extreme")


@hookimpl
def dpframe_estimators() -> list[type]:
    """Return the estimator that puts its bets into the record."""
    from dpframe_certify.bets import CertifiedBetting

    return [CertifiedBetting]


def with_bets(record: Record) -> Record:
    """Run an audit again, and return its record with the bets of `betting` as evidence.

    The draws have the addresses of the record, so everything else must be as it was.

    Raises:
        DpframeError: the run differs from the record.
    """
    try:
        spec: dict[str, Any] = tomllib.loads(record.spec.text)
    except tomllib.TOMLDecodeError:  # of a mapping
        spec = json.loads(record.spec.text)
    estimators = spec["estimator"]
    for each in [estimators] if isinstance(estimators, dict) else estimators:
        if each.get("use") == "betting":
            each["label"] = each.get("label", "betting")
            each["use"] = "certified-betting"
    again = audit(spec, overrides=record.spec.overrides)
    for one, other in zip(record.cells, again.cells, strict=True):
        results = [
            (each.verdict, each.trials, each.p_value, each.estimate and each.estimate.epsilon_lower)
            for each in (one, other)
        ]
        if results[0] != results[1]:
            raise DpframeError(f"{one.id}: a repeat gave {results[1]}, not {results[0]}")
    return again


def certificate(record: Record | Mapping[str, Any]) -> dict[str, Any]:
    """Return the certificate of a record: the conclusions of its certified cells, with evidence.

    Cells come in the order in which they are tested, by the p-values that decide their verdicts.

    Args:
        record: of a run; or the JSON values of an answer of `dpframe score`.

    Raises:
        DpframeError: the record certifies nothing, or has a verdict that does not follow from
            numbers.
    """
    whole = record.as_json() if isinstance(record, Record) else record_of_scores(record)
    cells = [cell for cell in whole["cells"] if (cell["estimate"] or {}).get("certified")]
    if not cells:
        raise DpframeError("the record certifies nothing: no estimator in it has a valid bound")
    content = {
        "certificate": 1,
        "record": whole["digest"],
        "spec": _part(whole["spec"], SPEC),
        "audit": {
            **whole["audit"],
            "m": whole["summary"]["m"],
            "looks": max((cell["basis"]["look"] for cell in cells if cell["basis"]), default=1),
        },
        "failed": whole["summary"]["failed"],
        "summary": {name: whole["summary"][name] for name in ("m", *VERDICTS)},
        **_part(whole, RECORD),
        "conclusions": [
            {
                **_part(cell, (*CELL, "trials", "verdict")),
                "claim": _claim(cell),
                "estimate": _part(cell["estimate"], ESTIMATE),
                "basis": _basis(cell["basis"]),
            }
            for cell in sorted(cells, key=_order)
        ],
    }
    digest = hashlib.sha256(canonical(content).encode()).hexdigest()
    return {**content, "digest": f"sha256:{digest}"}


def _part(whole: Mapping[str, Any] | None, keys: Iterable[str]) -> dict[str, Any]:
    return {key: whole[key] for key in keys if key in whole} if whole else {}


def _claim(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a claim, and what it claims unlike its mechanism's parameters of the same name."""
    claim = _part(cell["claim"], CLAIM)
    params = cell.get("mechanism", {}).get("params", {})
    unlike = {}
    for name, value in claim.get("parameters", {}).items():
        own = params.get(f"claimed_{name}") or params.get(name, value)
        if own != value and not isinstance(value, list | dict):
            unlike[name] = [value, own]
    return {**claim, "unlike": unlike} if unlike else claim


def _basis(whole: Mapping[str, Any] | None) -> dict[str, Any]:
    basis = _part(whole, BASIS)
    if extreme := basis.get("extreme"):
        # No bound is derived from the most extreme counts.
        bets = extreme["theorem"] == "betting"
        terms = [term for term in extreme["terms"] if not bets or term[0] > 0]
        basis["extreme"] = {"theorem": extreme["theorem"], "terms": terms}
    return basis


def _order(cell: Mapping[str, Any]) -> tuple[bool, float]:
    if (basis := cell["basis"]) is None:
        return True, math.inf
    violated = cell["verdict"] == "violated"
    p_value: float = basis["p_resolved"] if violated else cell["p_value"]
    look = basis["look"]
    return not violated, p_value * (look * (look + 1) if look > 1 else 1)


app = typer.Typer(rich_markup_mode=None)


@app.command()
def certify(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A record, the directory of a run, or what `dpframe score --json` printed.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="To write.")],
    bets: Annotated[
        bool, typer.Option("--bets", help="Repeat the run, and add the bets of `betting`.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option("--sign", metavar="KEY", help="A minisign or ssh-keygen key to sign with."),
    ] = None,
    registry: Annotated[
        bool,
        typer.Option(
            "--registry", help="Write a draft for the registry of deployments, as YAML, instead."
        ),
    ] = False,
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", metavar="LABEL", help="With --registry: the deployed one."),
    ] = None,
) -> None:
    """Write a certificate of a run, for certcheck.py to check without dpframe.

    With --bets the run is repeated for the bets of `betting`, which its record leaves out; read
    paths in its spec from the working directory. With --registry it writes an entry for the
    Differential Privacy Deployments Registry, with everything that the record knows.

    Exit code: 0, or 2 if the record certifies nothing or cannot be read.
    """
    record = answer_at(run) or load(run)
    if bets:
        if not isinstance(record, Record):
            raise DpframeError(f"{run}: --bets repeats a run, but these scores were made elsewhere")
        record = with_bets(record)
    if registry:
        if not isinstance(record, Record):
            raise DpframeError(f"{run}: --registry needs the record of a run, not scores")
        content = entry(record, mechanism)
    elif mechanism is not None:
        raise DpframeError("--mechanism chooses the mechanism of --registry")
    else:
        content = canonical(certificate(record)) + "\n"
    part, place = out.with_name(f".{out.name}.part"), key or out
    try:
        start = place.read_bytes()[:18] if key else b""
        place = out
        part.write_text(content, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        raise DpframeError(f"{place}: {error.strerror}") from None
    if key is not None:
        sign(out, key, minisign=start == b"untrusted comment:")


def sign(file: Path, key: Path, *, minisign: bool) -> None:
    """Sign a file with minisign or ssh-keygen, depending on the key.

    Raises:
        DpframeError: the program is not installed, or it fails.
    """
    call = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", "dpframe-certificate", str(file)]
    if minisign:
        call = ["minisign", "-S", "-s", str(key), "-m", str(file)]
    tool = shutil.which(call[0])
    if tool is None:
        raise DpframeError(f"{key} is a key of {call[0]}, which is not installed")
    if code := subprocess.run([tool, *call[1:]], check=False).returncode:
        raise DpframeError(f"{call[0]} could not sign {file}: exit code {code}")
