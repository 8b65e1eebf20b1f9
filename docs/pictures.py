"""Draws the pictures of the gallery when the site is built, by the commands that the page shows.

No picture is kept in the repository: one that is drawn anew shows what the code draws today, and a
site needs one anyway. So that a build takes a minute and no more, the audits count few draws, and
pictures are kept in `docs/_pictures` as long as neither dpframe nor a spec nor the page changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "_pictures"
FEW = ["--trials", "20000"]
FEWER = {
    # The picture shows one of 42 settings, and the bets of each take ten seconds.
    "dptext-decided": [*FEW, "--set", "mechanism.epsilon=[0.1, 1.0]", "--set", "pair.dim=[1, 8]"],
}
"""For specs that count many cells."""
OUT = ("-o", "--report")
BLOCK = re.compile(r"^```sh\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


class Drawn(NamedTuple):
    """A picture."""

    path: str
    """From the folder of the documents, which is `/`."""
    caption: str


def with_pictures(page: str, gallery: str) -> str:
    """A text with a figure below each block of commands that draws one.

    Args:
        page: of any document.
        gallery: the text of the gallery, which has all commands that are worth a picture; under
            which name they write it is left to each page.
    """
    if not any(_drawing(block[1]) for block in BLOCK.finditer(page)):
        return page
    drawn = dict(pictures(gallery))

    def shown(block: re.Match[str]) -> str:
        found = [drawn.get(_nameless(words)) for words in _drawing(block[1])]
        return "\n".join([block[0], *(_figure(one) for one in found if one is not None)])

    return BLOCK.sub(shown, page)


def _nameless(words: list[str]) -> tuple[str, ...]:
    """A command, wherever it writes."""
    out = next((n for n, word in enumerate(words) if word in OUT), len(words))
    return (*words[:out], *words[out + 2 :])


def _name(words: list[str]) -> str:
    """The file that a command writes."""
    return next(name for word, name in itertools.pairwise(words) if word in OUT)


def _drawing(text: str) -> list[list[str]]:
    """The commands in a text that draw: of records, and of plans."""
    plans = [words for words in commands(text, "plan") if "--report" in words]
    return [*commands(text, "plot"), *plans]


def commands(text: str, which: str) -> list[list[str]]:
    """The words of the commands `dpframe WHICH …` in a text."""
    lines = re.findall(rf"^dpframe {which} .*$", text, flags=re.MULTILINE)
    return [shlex.split(line)[1:] for line in lines]


def pictures(page: str) -> Iterator[tuple[tuple[str, ...], Drawn]]:
    """Command and picture, for all of a page but those of training, which takes minutes.

    CI draws a fifth of them, which the variable FIFTH names; all if it is "all" or not set.
    """
    each = dict.fromkeys(map(tuple, commands(page, "run")))  # a spec may be shown twice
    runs = [[*words] for words in each if not words[1].startswith("plugins/")]
    fifth = os.environ.get("FIFTH", "all")
    if fifth != "all":
        runs = runs[int(fifth) :: 5]
    wanted = {f"runs/{Path(words[1]).stem}" for words in runs}
    plots = [words for words in _drawing(page) if words[0] == "plan" or words[1] in wanted]
    folder = KEPT / f"{_digest(page)}-{fifth}"
    if not folder.is_dir():
        _draw(runs, plots, folder)
    for words in plots:
        name = _name(words)
        caption = (folder / f"{name}.txt").read_text(encoding="utf-8")
        yield _nameless(words), Drawn(f"/_pictures/{folder.name}/{name}", caption)


def _figure(drawn: Drawn) -> str:
    text = f"{drawn.caption} Drawn for this page, from few draws."
    return f"```{{figure}} {drawn.path}\n:alt: {drawn.caption}\n\n{text}\n```\n"


def _digest(page: str) -> str:
    """Return a digest of everything that decides how the pictures look."""
    sources = sorted([*(ROOT / "dpframe").rglob("*.py"), *(ROOT / "specs").rglob("*.*")])
    found = hashlib.sha256(page.encode() + Path(__file__).read_bytes())
    for source in sources:
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def _draw(runs: Iterable[list[str]], plots: Iterable[list[str]], folder: Path) -> None:
    """Runs the commands in a folder of their own, and moves what they drew when all is there."""
    KEPT.mkdir(exist_ok=True)
    for older in KEPT.iterdir():
        shutil.rmtree(older)
    with tempfile.TemporaryDirectory(dir=KEPT) as name:
        here = Path(name)
        (here / "specs").symlink_to(ROOT / "specs")
        made = here / "made"
        made.mkdir()
        with contextlib.chdir(here):
            for words in runs:
                spec = Path(words[1]).stem
                few = FEWER.get(spec, FEW)
                _dpframe(*words, *few, "--out", f"runs/{spec}", "--quiet", codes=(0, 1))
            for words in plots:
                out = _name(words)
                caption = _dpframe(*words, codes=(0,))
                (here / out).rename(made / out)
                text = " ".join(caption.partition(f"{out}: ")[2].split())
                (made / f"{out}.txt").write_text(text, encoding="utf-8")
        made.rename(folder)


def _dpframe(*words: str, codes: tuple[int, ...]) -> str:
    """Return the output of a command.

    Raises:
        RuntimeError: it failed.
    """
    from typer.testing import CliRunner

    from dpframe.cli import app

    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(words))
    if done.exit_code not in codes:
        raise RuntimeError(f"dpframe {shlex.join(words)}: {done.output or done.exception!r}")
    return done.stdout
