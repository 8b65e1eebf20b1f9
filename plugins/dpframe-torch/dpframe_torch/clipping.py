"""Check that a step summed gradients of single records that were clipped."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

MOST_ROWS = 512  # of a batch whose factors are computed
COORDINATES = 2  # for each row, from which its factor is computed
SMALLEST = 1e-7  # rounding of a sum in float32, relative to its norm
SAFETY = 10.0  # times the rounding that the residual shows
TOLERANCE = 1e-2  # of the clipping norm


def longest(optimizer: Any, rows: int) -> float | None:
    """Bound from below the longest gradient that a single record contributed to a sum.

    Opacus keeps the gradient g_i of each record, and the sum Σ c_i g_i of each parameter. Least
    squares in some coordinates give the factors c_i, up to rounding, whatever way of clipping
    chose them. Rounding is estimated from the residual, so a sum of another form, and records
    whose gradients are nearly dependent, give small bounds or none.

    Args:
        optimizer: Opacus's, after a step has clipped and before gradients are cleared.
        rows: number of records in the step.

    Returns:
        The bound, or None if nothing could be computed.
    """
    if not 0 < rows <= MOST_ROWS:
        return None
    squares = torch.zeros(rows, dtype=torch.float64)
    computed = False
    for p in optimizer.params:
        samples, summed = getattr(p, "grad_sample", None), getattr(p, "summed_grad", None)
        if samples is None or summed is None:
            continue
        each = torch.cat(list(samples)) if isinstance(samples, list) else samples
        if len(each) != rows or p.numel() < COORDINATES * rows:
            continue
        least = _shortest_parts(each.detach().flatten(1), summed.detach().flatten())
        if least is not None:
            squares += least.square()
            computed = True
    return math.sqrt(float(squares.max())) if computed else None


def _shortest_parts(each: Tensor, summed: Tensor) -> Tensor | None:
    """Bound from below the norm of c_i g_i in one parameter, shape [rows]."""
    rows, width = each.shape
    stride = max(1, width // (4 * COORDINATES * rows))
    busy = each[:, ::stride].abs().sum(0)  # layers with ReLU have zeros in many coordinates
    places = stride * busy.topk(min(COORDINATES * rows, len(busy))).indices
    matrix, target = each[:, places].double().cpu().T, summed[places].double().cpu()
    norms = each.float().norm(dim=1).double().cpu()
    if not (norms.isfinite().all() and target.isfinite().all()):
        return None
    some = matrix.norm(dim=0) > 0
    if not some.any():
        return None
    left, values, right = torch.linalg.svd(matrix[:, some], full_matrices=False)
    inverse = 1 / values.clamp(min=float(values[0]) * 1e-12)
    factors = right.T @ (inverse * (left.T @ target))
    residual = float((matrix[:, some] @ factors - target).norm())
    rounding = max(SAFETY * residual, SMALLEST * math.sqrt(rows) * float(target.norm()))
    error = rounding * (right * inverse[:, None]).norm(dim=0)
    found = torch.zeros(rows, dtype=torch.float64)
    found[some] = (factors.abs() - error).clamp(min=0.0) * norms[some]
    return found
