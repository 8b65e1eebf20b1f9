"""The examples run as scripts, and a callback audits a trainer."""

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from dpframe_torch import Canaries
from dpframe_torch.hugging_face import CanaryCallback
from torch_support import Script, table

EXAMPLES = Path(__file__).parents[1] / "examples"
OF_LIBRARIES = [
    "ignore:Model has `tie_word_embeddings:UserWarning",
    "ignore::FutureWarning:transformers",
    "ignore::DeprecationWarning:transformers",
]


def run(monkeypatch, name, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_the_example_with_opacus_runs_as_a_script(monkeypatch, capsys, folder):
    run(monkeypatch, "opacus_digits.py", "--epochs", "2", "--canaries", "100")
    printed = capsys.readouterr().out
    assert "Opacus: ε = " in printed
    assert "ε ≥ " in printed
    assert json.loads((folder / "runs/digits/record.json").read_text())["warnings"] == []


def test_four_lines_are_added_to_a_script():
    lines = (EXAMPLES / "opacus_digits.py").read_text(encoding="utf-8").splitlines()
    added = [line for line in lines if line.endswith("# audit")]
    assert len(added) == 4
    changed = [line for line in lines if line not in added and "canaries.train_set" in line]
    assert changed == ["loader = DataLoader(canaries.train_set, batch_size=64)"]


@pytest.mark.slow
@pytest.mark.filterwarnings(*OF_LIBRARIES)
def test_the_example_with_lora_finds_what_a_language_model_learned_by_heart(monkeypatch, folder):
    """Run on CPU with a tiny random model, without privacy, so the bound is near the ceiling."""
    run(monkeypatch, "lora.py")
    found = json.loads((folder / "runs/lora/record.json").read_text())
    (bound,) = found["rows"][0]["bounds"]
    assert bound["epsilon_lower"] > 1.5
    assert found["training"]["watched"]["steps"] == 150
    assert not any("recognised" in one for one in found["warnings"])


def test_a_callback_audits_a_trainer_and_keeps_the_canaries_with_checkpoints(folder):
    """The calls of a `Trainer`, in their order; the example with LoRA has a real one."""
    canaries = Canaries(table(), 60, out="run")
    callback = CanaryCallback(canaries, epsilon=1.0)
    script = Script(canaries)
    script.model._module.append(torch.nn.Dropout(0.5))
    arguments, state = SimpleNamespace(output_dir="out"), SimpleNamespace(global_step=3)
    (folder / "out/checkpoint-3").mkdir(parents=True)
    callback.on_train_begin(arguments, state, None, model=script.model, optimizer=script.optimizer)
    for x, y in script.loader:
        script.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(script.model(x), y).backward()
        script.optimizer.step()
    callback.on_save(arguments, state, None)
    script.model.train()
    callback.on_train_end(arguments, state, None, model=script.model)
    assert script.model.training
    assert not any("train mode" in text for text in callback.audit.warnings)
    assert callback.audit.verdict in ("consistent", "inconclusive")
    kept = json.loads((folder / "out/checkpoint-3/canaries.json").read_text())
    assert kept["run"] == canaries.run
