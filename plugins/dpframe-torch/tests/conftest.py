"""A folder for every test, and one thread."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own: runs are written to where a script runs."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    return tmp_path
