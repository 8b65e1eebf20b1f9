"""A separate folder for every test, and one thread."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Run a test in its own folder, because runs are written to the working directory."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    return tmp_path
