"""Functions and programs that change their table, or raise exceptions for some tables."""

import re

from dpframe_pipelines import audit_sql, audit_synthesizer

COLUMNS = [{"name": "who", "user": True}, {"name": "spent", "low": 0.0, "high": 10.0}]
SQL = {"columns": COLUMNS, "epsilon": 1.0, "trials": 600}
TABLE = {"table": [[1.0]] * 8, "columns": [{"name": "x", "low": 0.0, "high": 9.0}], "epsilon": 1.0}


def test_functions_may_change_their_table():
    """If later calls got the empty table, they would leak nothing."""

    def emptied(table):
        rows = []
        while table:
            rows.append(table.pop())
        return rows

    def private(rng, table):
        return [[rng.random()]] if emptied(table) else []

    for record, verdict in (
        (audit_sql(lambda table, query: len(emptied(table)), **SQL), "violated"),
        (audit_synthesizer(emptied, **TABLE, fits=200), "violated"),
        (audit_synthesizer(private, **TABLE, fits=200), "consistent"),
    ):
        assert record.cells[0].verdict == verdict, record.cells[0].reason


PROGRAM = """
import random

def prepare(params, table):
    def ask(query=None):
        while table:
            table.pop()
        return [[random.random()]]

    return ask
"""


def test_calls_of_a_program_share_a_table_and_may_not_change_it(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    for record in audit_sql(path, **SQL), audit_synthesizer(path, **TABLE, fits=200):
        (cell,) = record.cells
        assert (cell.status, cell.verdict) == ("failed", None)
        assert cell.reason.startswith("a call changed its data, or the state")


def test_queries_that_always_raise_leave_the_others():
    """The first query of the search, a count, is not supported."""

    def answer(rng, table, query):
        if query.aggregate == "COUNT":
            raise NotImplementedError
        return sum(row["spent"] or 0.0 for row in table)

    (cell,) = audit_sql(answer, **SQL).cells
    assert cell.verdict == "violated"
    assert "SUM(spent)" in cell.search.event


def test_exceptions_that_depend_on_the_table_are_found():
    """Tables of an even size are answered."""

    def answer(rng, table, query):
        if len(table) % 2:
            raise KeyError(0)
        return rng.laplace()

    (cell,) = audit_sql(answer, **SQL, confidence=0.95).cells
    assert cell.verdict == "violated"
    assert re.search("Error at|returns list of 6 float", cell.search.event)
