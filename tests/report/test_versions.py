"""The version matrix: one row per environment, one column per mechanism, in every report."""

from __future__ import annotations

from typing import Any

from support import made_records

from dpframe.report.files.html import document as html
from dpframe.report.files.markdown import document
from dpframe.report.versions import OWN, versions
from dpframe.report.witness import as_tables, as_test, as_toml
from dpframe.results.store import as_record


def cell(label: str, where: str | None, verdict: str = "consistent", **params: Any) -> Any:
    found = made_records.cell(epsilon=1.0, m=4)
    found["id"] = f"{label}-{where}-{params}"
    given = {"epsilon": 1.0, **params} | ({} if where is None else {"environment": where})
    found["mechanism"] = {"use": "program", "label": label, "params": given}
    found["swept"] = {}
    return found | {"verdict": verdict, "expected": None}


def failed(label: str, where: str) -> Any:
    none = dict.fromkeys(("counts", "estimate", "verdict", "p_value", "p_adjusted"))
    return cell(label, where) | none | {"status": "failed", "reason": "it is not built"}


def witness(event: str) -> Any:
    choice = {"use": "grid", "label": "grid", "params": {}}
    counted = {"hits": [0, 9], "trials": [10, 10], "pair_trials": 10}
    found = {"neighbourhood": choice, "pairs": 3, "event": event, "more_likely": "D′"}
    return {"search": {**found, **counted}}


SWEPT = [
    cell("mean", "lib 1", "violated") | witness("raises ValueError"),
    cell("mean", "lib 2"),
    cell("sum", "lib 1", "inconclusive"),
    failed("sum", "lib 2"),
    cell("plain", None, "violated"),
]


def matrices(cells: list[Any]) -> list[dict[str, list[str]]]:
    return [
        {"": [*part.heads[1:]]}
        | {str(name): [getattr(one, "text", one) for one in row] for (name, *row), _ in part.rows}
        for part in versions(as_record(made_records.record(cells)))
    ]


def test_a_row_for_each_environment_and_a_column_for_each_mechanism() -> None:
    assert matrices(SWEPT) == [
        {
            "": ["mean", "sum", "plain"],
            "lib 1": ["✗ violated: raises ValueError", "? inconclusive", "–"],
            "lib 2": ["○ no violation found", "! failed: it is not built", "–"],
            OWN: ["–", "–", "✗ violated: certified 0.829 of claimed 1"],
        }
    ]


def test_the_gravest_of_several_cells_stands_for_them() -> None:
    cells = [cell("a", "lib", v, n=n) for n, v in enumerate(("consistent", "violated", "violated"))]
    cells.append(cell("a", "lib 2", n=3))
    assert matrices(cells)[0]["lib"] == ["✗ violated in 2 of 3 cells: certified 0.829 of claimed 1"]


def test_one_mechanism_under_several_labels_is_one_column() -> None:
    labels = [cell("noisy mean, 1.0", "lib 1"), cell("noisy mean, 2.0", "lib 2")]
    assert matrices(labels)[0][""] == ["noisy mean"]
    both = [cell("z", "lib 1"), cell("z", "lib 2")]
    others = [cell("noisy mean, 1.0", "lib 1"), cell("noisy mean, 2.0", "lib 2", n=3)]
    assert matrices([*others, *both])[0][""] == ["noisy mean, 1.0", "noisy mean, 2.0", "z"]
    in_one = [cell("b 1", "lib 1"), cell("b 2", "lib 1")]
    assert matrices([*in_one, *both])[0][""] == ["b 1", "b 2", "z"]
    nothing_in_common = [cell("x", "lib 1"), cell("y", "lib 2")]
    assert matrices([*nothing_in_common, *both])[0][""] == ["x", "y", "z"]


def test_libraries_that_have_nothing_to_do_with_each_other_get_tables_of_their_own(
    show: Any,
) -> None:
    names = ("ada", "bob", "cyd", "dee", "eve")
    cells = [cell(f"{name} {n} noise", f"{name} {n}", of=name) for n in (1, 2) for name in names]
    parts = matrices(cells)
    assert [part[""] for part in parts] == [[f"{name} noise"] for name in names]
    assert list(parts[1]) == ["", "bob 1", "bob 2"]
    assert "–" not in show(made_records.record(cells), 80).partition("environment")[2].partition(
        "No violation"
    )[0].replace("─", "")


def test_there_is_none_where_all_run_here(show: Any) -> None:
    record = made_records.record([cell("a", None), cell("b", None)])
    assert versions(as_record(record)) == []
    assert "environment" not in show(record)
    assert "## Versions" not in document(as_record(record))


def test_there_is_none_where_nothing_ran_in_two_versions(show: Any) -> None:
    apart = [cell("a", "ada 1"), cell("a b", "ada 1"), cell("b", "bob 1"), cell("c", None)]
    record = made_records.record(apart)
    assert versions(as_record(record)) == []
    assert "environment" not in show(record)
    assert "## Versions" not in document(as_record(record))


def test_tables_of_one_version_are_left_out() -> None:
    names = ("ada", "bob", "cyd", "dee")
    alone = [cell(f"{name} noise", f"{name} 1", of=name) for name in names]
    two = [cell("eve", f"eve {n}") for n in (1, 2)]
    (part,) = matrices([*alone, *two])
    assert list(part) == ["", "eve 1", "eve 2"]


def test_every_report_has_it(show: Any) -> None:
    record = made_records.record(SWEPT)
    wide = " ".join(show(record, 120).split())
    assert "environment mean sum plain" in wide
    assert "lib 1 ✗ violated: raises ValueError ? inconclusive –" in wide
    narrow = " ".join(show(record, 40).split())
    assert "lib 1 · mean ✗ violated: raises ValueError · sum ? inconclusive" in narrow
    page = document(as_record(record))
    assert "| environment | mean | sum | plain |" in page
    assert "| lib 2 | ○ no violation found | ! failed: it is not built | – |" in page
    assert all(
        f'<th scope="col">{name}</th>' in html(as_record(record)) for name in ("mean", "sum")
    )


def test_a_witness_says_where_it_ran_and_what_code_it_takes() -> None:
    cells = [cell("mean", "lib 1", "violated", module="box.py") | witness("raises ValueError")]
    made = made_records.record(cells)
    made["environments"] = [
        {"name": "lib 1", "requirements": ["lib==1"], "python": "3.11.2", "installed": ["lib==1"]},
        {"name": "lib 2", "requirements": ["lib==2"], "python": "3.11.2", "installed": ["lib==2"]},
    ]
    attack = {"kind": "attack", "name": "majority-vote", "distribution": "my attacks.py"}
    made["plugins"] = [{**attack, "version": "0", "code": "0"}]
    record = as_record(made)
    (found,) = record.cells
    assert as_tables(found, record)["environments"] == {"lib 1": ["lib==1"]}
    assert "--plugin 'my attacks.py' --plugin box.py" in as_toml(found, record)
    assert "plugins=['my attacks.py', 'box.py']" in as_test(found, record)
