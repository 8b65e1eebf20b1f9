"""The examples run as scripts, and distributed training gives every rank the same canaries."""

import json
import os
import runpy
import socket
import subprocess
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


RANK = """
import json, os, sys, warnings
import torch
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from dpframe_torch import Canaries
from opacus import PrivacyEngine
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as DPDDP
from torch_support import network, table

torch.set_num_threads(1)
distributed.init_process_group("gloo")
tossed = Canaries(table(), 101, out="tossed")  # its coins come from rank 0
canaries = Canaries(table(), 101, seed=5, out="run")
torch.manual_seed(0)
model = DistributedDataParallel(network())
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
canaries.watch(model, optimizer)
sampler = DistributedSampler(canaries.train_set)
for epoch in range(20):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(canaries.train_set, batch_size=20, sampler=sampler):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
found = canaries.audit(model.module)

# The same with Opacus: noise comes from rank 0 alone, and a step is the mean over ranks.
hidden = Canaries(table(), 150, "random-gradient", seed=5, out="white")
own = network(64)
engine = PrivacyEngine(accountant="rdp")
own, optimizer, loader = engine.make_private(
    module=DPDDP(own),
    optimizer=torch.optim.SGD(own.parameters(), lr=0.1),
    data_loader=DataLoader(hidden.train_set, batch_size=100),
    noise_multiplier=0.3,
    max_grad_norm=1.0,
)
hidden.watch(own, optimizer)
for epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        cross_entropy(own(x), y).backward()
        optimizer.step()
scores = hidden.watched.gradients.scores()
white = hidden.audit(own, engine.get_epsilon(1e-5), engine=engine)
members = hidden.members
gap = (scores[members].mean() - scores[~members].mean()) / scores[~members].std()
directions = white["training"]["watched"]["directions"]
rank = distributed.get_rank()
with open(f"rank-{rank}.json", "w") as file:
    state = [canaries.state, found.epsilon_lower, found.warnings, len(canaries.train_set)]
    state += [hidden.state, white.epsilon_lower, white.warnings, gap, directions, tossed.state]
    json.dump(state, file)
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_have_the_same_canaries_and_share_the_scoring(folder):
    (folder / "rank.py").write_text(RANK)
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    common = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen([sys.executable, "rank.py"], env={**common, "RANK": str(rank)})
        for rank in (0, 1)
    ]
    assert [one.wait(timeout=300) for one in ranks] == [0, 0]
    first, second = (json.loads((folder / f"rank-{r}.json").read_text()) for r in (0, 1))
    assert first == second
    assert first[1] > 0.2
    assert first[2] == []
    assert first[5] > 0.5
    assert first[6] == []
    assert first[7] > 0.8, "gradients of both ranks carry their canaries"
    assert 0.25 < first[8]["spread"] < 0.5, "the noise multiplier is 0.3"
    assert json.loads((folder / "run/canaries.json").read_text()) == first[0]
    assert sorted(p.name for p in (folder / "run").iterdir()) == [
        "canaries.json",
        "picture.svg",
        "record.json",
    ]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


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
