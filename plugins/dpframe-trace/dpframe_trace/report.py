"""The findings of a trace, and its report."""

from __future__ import annotations

import linecache
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

TOLERANCE = 1e-6
"""Relative excess over a claim or a sensitivity that counts as rounding."""


class Finding(NamedTuple):
    """An observation that violates the claim, or probably does."""

    kind: str
    """`output`, `path`, `scale`, `not-a-number`, `reused`, `declared`, `budget` or `seed`."""
    text: str
    file: str
    line: int
    """0 if the finding belongs to no line."""
    pair: str
    """The first pair that shows it."""

    def __str__(self) -> str:
        place = f"{Path(self.file).name}:{self.line}: " if self.line else ""
        return f"{place}{self.text}"


@dataclass
class Line:
    """All noise of one line of code, over all pairs."""

    file: str
    line: int
    name: str
    """The primitive, such as `laplace`."""
    draws: int = 0
    """Most numbers drawn in one run."""
    scales: tuple[float, float] = (math.inf, 0.0)
    """Smallest and largest scale that the noise had when it was added; NaN if unknown."""
    sensitivity: float = 0.0
    """Largest change of the values to which the noise was added; l1, l2 for normal noise, l∞ for
    others."""
    epsilon: float = 0.0
    """Largest loss of these draws on one pair. NaN if unknown; for normal noise, at `delta`."""
    followed: bool = True
    """False if the noise was used in a way that the trace does not follow."""

    @property
    def code(self) -> str:
        """The line itself."""
        return linecache.getline(self.file, self.line).strip()


@dataclass
class Trace:
    """The observations on the given pairs. They say nothing about other pairs."""

    pairs: int
    runs: int
    claim: tuple[float | None, float]
    lines: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Differences that the trace cannot judge, with the reason."""
    epsilon: float = 0.0
    """Largest loss of one pair if all noised values are released: losses of all calls, composed.
    NaN if the loss of a call is unknown."""

    @property
    def exit_code(self) -> int:
        """1 if there are findings, 3 if something could not be judged, else 0."""
        return 1 if self.findings else 3 if self.unknown else 0

    def find(self, finding: Finding) -> None:
        """Add a finding, unless its line has one of the same kind already."""
        known = {(f.kind, f.file, f.line) for f in self.findings}
        if (finding.kind, finding.file, finding.line) not in known:
            self.findings.append(finding)

    def cannot_tell(self, text: str) -> None:
        """Add a difference that cannot be judged, once."""
        if text not in self.unknown:
            self.unknown.append(text)

    def __str__(self) -> str:
        return "\n".join(_report(self))


def seeded(file: str, line: int, seed: str, pair: str) -> Finding:
    """Return the finding that a generator has a fixed seed."""
    text = f"a generator is seeded with {seed}: every run has the same noise"
    return Finding("seed", text, file, line, pair)


def _report(trace: Trace) -> Iterator[str]:
    pairs = "1 pair" if trace.pairs == 1 else f"{trace.pairs} pairs"
    noise = "1 noise seed" if trace.runs == 1 else f"{trace.runs} noise seeds"
    yield f"{pairs} of datasets, {noise} each"
    for line in trace.lines:
        yield ""
        yield f"{Path(line.file).name}:{line.line}  {line.name}, {line.draws} drawn"
        if line.code:
            yield f"    {line.code}"
        yield f"    {_about(line)}"
    yield ""
    for one in trace.findings:
        yield f"FOUND {one.kind}: {one}"
        if one.pair:
            yield f"    first seen on the pair: {one.pair}"
    for text in trace.unknown:
        yield f"CANNOT TELL: {text}"
    claimed, delta = trace.claim
    if trace.lines:
        total = "unknown" if math.isnan(trace.epsilon) else f"{trace.epsilon:.4g}"
        at = f" at δ = {f'{delta:g}'.replace('e-0', 'e-')}" if delta else ""
        beside = "" if claimed is None else f"; claimed: {claimed:g}"
        yield f"ε of all observed noise, composed: {total}{at}{beside}"
    if trace.findings:
        yield (
            "A trace compares runs; it proves nothing. Confirm with dpframe.assert_dp on this pair."
        )
    elif not trace.unknown:
        yield "No findings on these pairs. This says nothing about other data, other noise, "
        yield "or the distribution of the noise itself, and certifies nothing."


def _about(line: Line) -> str:
    low, high = line.scales
    if math.isinf(low) and high == 0:
        what = "not seen to be added to a number" if not line.followed else ""
        eps = "" if line.epsilon == 0 else f"ε = {line.epsilon:.4g}"
        seen = f"observed sensitivity {line.sensitivity:.6g}" if line.sensitivity else ""
        return (
            ", ".join(part for part in (what, seen, eps) if part) or "same distribution on D and D′"
        )
    scale = "unknown" if math.isnan(low) else f"{low:.6g}"
    scale += f" to {high:.6g}" if high > low * (1 + TOLERANCE) else ""
    eps = "unknown" if math.isnan(line.epsilon) else f"{line.epsilon:.4g}"
    return f"scale {scale}, observed sensitivity {line.sensitivity:.6g}, ε = {eps}"
