import pytest
from support import made_records

from dpframe.record.file import as_record

pytest.importorskip("matplotlib")


@pytest.fixture(scope="session")
def small():
    """Three mechanisms, three claims, two dimensions, as a run would have found them."""
    cell = made_records.cell
    uses = ("laplace", "adept", "dptext")
    cells = [cell(use, e, dim, m=18) for use in uses for e in (0.1, 1.0, 10.0) for dim in (1, 8)]
    return as_record(made_records.record(cells))
