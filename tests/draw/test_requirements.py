"""The libraries that a plugin imports are found under every form in which they are installed."""

from pathlib import Path

import pytest

from dpframe.draw import requirements

INSTALLED = {
    "whole-1.0.dist-info": {"RECORD": "whole/__init__.py,sha256=x,1\n"},
    "one_file-1.0.dist-info": {"RECORD": "single.py,sha256=x,1\n"},
    "compiled-1.0.dist-info": {"RECORD": "fast.cpython-312-x86_64-linux-gnu.so,sha256=x,1\n"},
    "parts-1.0.dist-info": {"RECORD": "space/part/__init__.py,,\nspace/part/data.csv,,\n"},
    "declared-1.0.dist-info": {"top_level.txt": "said\n", "RECORD": "other/__init__.py,,\n"},
    "odd-1.0.dist-info": {"RECORD": '"comma/a,b.py",,\n'},
    "old-1.0.egg-info": {"SOURCES.txt": "setup.py\nlegacy/__init__.py\n"},
    "alike-1.0.dist-info": {"RECORD": "wholesale/__init__.py,,\nnot/whole.py,,\nwhole.txt,,\n"},
}


@pytest.mark.parametrize(
    ("package", "owner"),
    [
        ("whole", "whole"),
        ("single", "one_file"),
        ("fast", "compiled"),
        ("space", "parts"),
        ("said", "declared"),
        ("comma", "odd"),
        ("legacy", "old"),
        ("nowhere", None),
        ("other", None),
    ],
)
def test_the_owner_of_a_package(
    package: str, owner: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, files in INSTALLED.items():
        (tmp_path / folder).mkdir()
        metadata = "PKG-INFO" if folder.endswith("egg-info") else "METADATA"
        name = folder.partition("-")[0]
        for file, text in {**files, metadata: f"Name: {name}\nVersion: 1.0\n"}.items():
            (tmp_path / folder / file).write_text(text)
    (tmp_path / "legacy").mkdir()
    (tmp_path / "legacy" / "__init__.py").touch()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    found = requirements._owners.__wrapped__(frozenset({package}))
    assert found == (() if owner is None else (owner,))


def test_words_after_import_that_are_no_names_own_nothing(tmp_path: Path) -> None:
    file = tmp_path / "prose.py"
    file.write_text("import ...\nfrom somewhere import it\n")
    assert requirements._imports(str(file)) == {"somewhere"}
