"""Messages about wrong calls name what was written and what to write."""

import pytest
from typer.testing import CliRunner

from dpframe.cli.app import app


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "a.toml", "--trials", "1e6"], "got '1e6'"),
        (["run", "a.toml", "--html", "a.html"], "use --report a.html"),
        (["run", "specs/quick.toml", "--report", "a.pdf"], "a report's suffix must be .html"),
        (["plugins", "laplase"], "did you mean 'laplace'? `dpframe plugins` lists all"),
    ],
)
def test_a_wrong_word_is_named_with_a_remedy(words, hint):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert hint in done.output
