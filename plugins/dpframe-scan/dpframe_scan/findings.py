"""Findings as tests that a maintainer can keep, and assumptions as a file that can be edited."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli

from dpframe import DpframeError
from dpframe_scan.data_plans import DataPlan
from dpframe_scan.proposals import Proposal
from dpframe_scan.search import Cell, Found, claim_words, tested_claim
from dpframe_scan.sources import check_expression, literal, source_of
from dpframe_scan.trials import Called

SECONDS = 20  # of a written test


def slug(name: str) -> str:
    """Return a name as a part of a file's name."""
    return re.sub(r"\W+", "_", name).strip("_").lower()


def as_test(
    proposal: Proposal,
    pair: tuple[Any, Any],
    *,
    bits: bool = False,
    event: str = "",
    conditions: Sequence[str] = (),
) -> str:
    """Return a test file: the release, the pair, and everything that was assumed."""
    claim = tested_claim(proposal)
    name, title = proposal.target, slug(proposal.target.rpartition(".")[2])
    head = f"{name} claims {claim_words(proposal.claim)}."
    if event:
        refuted = f"Refuted{', if ' + ' and '.join(conditions) if conditions else ''}: {event}."
    else:
        refuted = "Not searched yet: this pair is only an example."
    lines = [head, "", *textwrap.wrap(refuted, 96), "", "Assumed:"]
    for text in proposal.sentences:
        lines += textwrap.wrap(text, 96, initial_indent="* ", subsequent_indent="  ")
    documented = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    imports, _, body = source_of(proposal).partition("\n\n\n")
    given = ", ".join(
        f"{key}={value!r}" for key, value in claim.items() if key in ("epsilon", "delta")
    )
    own = ["from dpframe.pytest import assert_dp"]
    for key, kind in (("rho", "ZeroConcentratedDP"), ("mu", "GaussianDP")):
        if key in claim:
            given = f"claim={kind}({claim[key]!r})"
            own.append(f"from dpframe import {kind}")
    more = ', outputs={"bits": True}' if bits else ""
    imports = "\n".join([imports, *sorted(own)])
    return (
        f'"""{documented}\n"""\n\n{imports}\n\n\n{body}\n\n'
        f"def test_{title}_keeps_its_claim():\n"
        f"    d0 = {literal(pair[0])}\n"
        f"    d1 = {literal(pair[1])}\n"
        f"    assert_dp(release, d0=d0, d1=d1, {given}{more}, seconds={SECONDS})\n"
    )


def written(cell: Cell, found: Found, folder: Path) -> Path:
    """Write a finding as a test, and return its path."""
    text = as_test(
        cell.proposal,
        found.pair,
        bits=cell.stage == "bits",
        event=f"{found.event} ({found.counts})",
        conditions=found.conditions,
    )
    stage = "" if cell.stage == "within" else f"_{cell.stage}"
    path = folder / f"test_{slug(cell.name.partition('.')[2] or cell.name)}{stage}.py"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# Assumptions.


def toml(value: Any) -> str:
    """Return plain values as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return repr(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)


def assumptions(called: Sequence[Called], package: str) -> str:
    """Return a file with everything that was assumed about each callable."""
    lines = [
        f"# Assumptions of dpframe scan {package}. Edit what is wrong, and scan again with",
        "# --assume and this file. Values of arguments are Python; `skip = true` leaves one out.",
        "# adjacency: unknown, replace, add-remove; any (two records); sensitivity, one-by-one.",
        "# conditions: guesses on which a violation depends; remove from the list what is so.",
    ]
    for one in called:
        lines += ["", f"[{toml(one.target.name)}]"]
        if one.proposal is None:
            lines += [_reason(one), "skip = true"]
            continue
        lines += [f"# {text}" for text in one.proposal.sentences]
        if one.outcome != "release":
            lines += [_reason(one)]
        lines += [f"{key} = {toml(value)}" for key, value in fields_of(one.proposal).items()]
    return "\n".join(lines) + "\n"


def _reason(one: Called) -> str:
    text = " ".join(f"# {one.outcome}: {one.reason}".split())[:200]
    return "".join(character if character.isprintable() else "?" for character in text)


FIELDS = (*("arguments", "method", "of_method", "in_constructor", "answer", "claim", "conditions"),)
DATA_FIELDS = ("form", "inputs", "table", "schema", "adjacency", "length")


def fields_of(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as plain values."""
    fields = {name: getattr(proposal, name) for name in FIELDS}
    fields |= {name: getattr(proposal.data, name) for name in DATA_FIELDS}
    return {k: v for k, v in fields.items() if v not in ("", (), {}, False)}


KINDS: Mapping[str, type[Any]] = {
    **dict.fromkeys(("arguments", "of_method", "setters", "claim", "inputs"), dict),
    **dict.fromkeys(("method", "form", "adjacency"), str),
    **dict.fromkeys(("answer", "table", "schema", "conditions"), list),
    **dict.fromkeys(("in_constructor", "skip"), bool),
    "length": int,
}
CHOICES = {
    "adjacency": ("unknown", "replace", "add-remove", "any", "sensitivity", "one-by-one"),
    "form": ("records", "record", "numbers"),
}


def read(path: Path, package: str) -> dict[str, dict[str, Any]]:
    """Read a file of assumptions.

    Raises:
        DpframeError: it cannot be read, or an entry is not what it should be.
    """
    try:
        content = tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DpframeError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DpframeError(f"{path}: {error}") from None
    for name, fields in content.items():
        if not isinstance(fields, dict):
            raise DpframeError(f"{path}: {name} is not a table")
        for key, value in fields.items():
            if problem := _problem(key, value):
                raise DpframeError(f"{path}: {name}: {key}: {problem}")
            if key in EXPRESSIONS:
                for expression in value.values():
                    check_expression(expression, package)
    return content


EXPRESSIONS = ("arguments", "of_method", "setters", "inputs")
ATTRIBUTE = re.compile(r"__call__|[A-Za-z]\w*(\(([\d\s.,\[\]()]|np\.array\()*\))?")
"""A name, or a call of it with numbers; a file of assumptions may be from elsewhere."""


def _problem(key: str, value: Any) -> str:
    """Return what is wrong with an entry, "" if nothing is."""
    if key not in KINDS:
        return f"there is no such entry; there are {', '.join(KINDS)}"
    if not isinstance(value, KINDS[key]):
        return f"{value!r} is not of type {KINDS[key].__name__}"
    if key in CHOICES and value not in CHOICES[key]:
        return f"{value!r} is not one of {', '.join(CHOICES[key])}"
    if key == "claim" and not all(isinstance(one, int | float) for one in value.values()):
        return "numbers by name: epsilon, delta, rho or mu"
    if key in EXPRESSIONS:
        name = r"[A-Za-z]\w*\.[A-Za-z]\w*" if key == "setters" else r"[^\W\d]\w*"
        fits = [bool(re.fullmatch(name, k)) and isinstance(v, str) for k, v in value.items()]
        wrong = [k for k, fitting in zip(value, fits, strict=True) if not fitting]
        return f'{wrong[0]} must be text, such as "1.0"' if wrong else ""
    names = [value] if key == "method" else value if key == "answer" else []
    wrong = [str(one) for one in names if not ATTRIBUTE.fullmatch(str(one))]
    return f"{wrong[0]!r} is not the name of an attribute" if wrong else ""


def applied(proposal: Proposal | None, target: str, fields: Mapping[str, Any]) -> Proposal | None:
    """Return a proposal with the assumptions of a file in place of its own.

    Raises:
        DpframeError: no proposal is given, and the file does not describe one.
    """
    given = {key: value for key, value in fields.items() if key != "skip"}
    if proposal is None:
        if missing := [key for key in ("claim", "form", "inputs") if key not in given]:
            if given:
                raise DpframeError(f"{target}: give {', '.join(missing)} too")
            return None
        empty = DataPlan(given["form"], {})
        proposal = Proposal(target, {}, {}, empty)
    plain = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    changed = [key for key, value in plain.items() if _differs(proposal, key, value)]
    if not changed:
        return proposal
    of_data: dict[str, Any] = {key: plain[key] for key in DATA_FIELDS if key in plain}
    data = dataclasses.replace(proposal.data, **of_data)
    if "adjacency" in changed:
        words = f"Neighbours: {data.adjacency}, as the file of assumptions says."
        data = dataclasses.replace(data, assumed=(words, *data.assumed[1:]))
    own: dict[str, Any] = {key: plain[key] for key in FIELDS if key in plain}
    edited = f"The file of assumptions states {', '.join(changed)}."
    assumed = (*proposal.assumed, edited)
    return dataclasses.replace(proposal, data=data, assumed=assumed, **own)


def _differs(proposal: Proposal, key: str, value: Any) -> bool:
    known = getattr(proposal, key) if key in FIELDS else getattr(proposal.data, key)
    return toml(known) != toml(value)
