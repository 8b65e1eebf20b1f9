"""Claims in words, as the command line takes them: epsilon=1,delta=1e-5."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from dpframe import claims
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from dpframe.claims import Claim


def read_claim(text: str) -> Claim:
    """Makes a claim of its parameters, which also say what kind of claim it is.

    Args:
        text: NAME=NUMBER, separated by commas, for example "epsilon=1,delta=1e-5" or "mu=1".

    Raises:
        DpframeError: no claim has these parameters, or it refuses their values.
    """
    kinds = _kinds()
    accepts = "accepts: " + "; ".join(",".join(f"{n}=…" for n in names) for names in kinds)
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            values[name] = float(number)
        except ValueError:
            raise DpframeError(
                f"--claim {text}: {part.strip()!r} is not NAME=NUMBER\n   {accepts}"
            ) from None
    found = next((cls for names, cls in kinds.items() if set(names) == set(values)), None)
    if found is None:
        raise DpframeError(f"--claim {text}: no claim takes {', '.join(values)}\n   {accepts}")
    try:
        return found(**values)
    except ValueError as error:
        raise DpframeError(f"--claim {text}: {error}") from error


def _kinds() -> dict[tuple[str, ...], type[Claim]]:
    """The claims whose parameters are numbers, by the names of the parameters."""
    exported: list[Any] = [getattr(claims, name) for name in claims.__all__]
    kinds: dict[tuple[str, ...], type[Claim]] = {}
    for cls in exported:
        if isinstance(cls, type) and issubclass(cls, claims.Claim) and cls is not claims.Claim:
            fields = [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]  # all claims are
            if all(field.type in ("float", float) for field in fields):
                kinds[tuple(field.name for field in fields)] = cls
    return dict(sorted(kinds.items()))
