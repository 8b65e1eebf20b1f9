"""Run the cells of a notebook, and write what they show beside them.

    pip install -e '.[all]' pytest
    python docs/notebook.py docs/tutorial.ipynb

It needs no Jupyter. A cell shows what it prints, and its last expression as text and, if it can,
as HTML or as a picture.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
import types
from pathlib import Path
from typing import Any


def run(notebook: dict[str, Any]) -> None:
    """Run all cells of a notebook in one module, and replace their outputs."""
    module = types.ModuleType("__main__")
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = outputs("".join(cell["source"]), vars(module), count)


def outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Run a cell, and return what it shows."""
    body = ast.parse(source).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {count}", "exec"), names)
        if last is not None:
            value = eval(compile(last, f"cell {count}", "eval"), names)
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": lines(text)})
    if value is not None:
        found.append(
            {
                "data": shown(value),
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return found


def shown(value: Any) -> dict[str, Any]:
    """Return a value by media type, as a notebook holds it."""
    found: dict[str, Any] = {"text/plain": lines(repr(value))}
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=72, metadata={"Software": None})
        found = {"image/png": base64.b64encode(picture.getvalue()).decode(), **found}
    elif html := getattr(value, "_repr_html_", lambda: None)():
        found = {"text/html": lines(html), **found}
    return found


def lines(text: str) -> list[str]:
    """Split a text as notebooks do: every line keeps its end."""
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    content = json.loads(file.read_text(encoding="utf-8"))
    run(content)
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
