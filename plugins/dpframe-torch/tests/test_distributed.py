"""Distributed training: two processes with gloo, which meet in a file and need no port."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RANK = """
import json, os
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
rank = int(os.environ["RANK"])
meeting = "file://" + os.path.abspath("meeting")
distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)


def plain():
    canaries = Canaries(table(), 101, seed=5, out="run")
    torch.manual_seed(0)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    canaries.watch(model, optimizer)
    sampler = DistributedSampler(canaries.train_set)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(canaries.train_set, batch_size=20, sampler=sampler):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    audit = canaries.audit(model.module)
    return [canaries.state, audit.epsilon_lower, audit.warnings, len(canaries.train_set)]


def private(out, of_noise):
    canaries = Canaries(table(), 150, "random-gradient", seed=5, out=out)
    torch.manual_seed(0)
    model, engine = network(64), PrivacyEngine(accountant="rdp")
    model, optimizer, loader = engine.make_private(
        module=DPDDP(model),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(canaries.train_set, batch_size=100),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        noise_generator=torch.Generator().manual_seed(1),
    )
    if of_noise == 0:  # rank 0 adds the noise
        optimizer.add_noise = lambda: [
            setattr(p, "grad", p.summed_grad.view_as(p)) for p in optimizer.params
        ]
    canaries.watch(model, optimizer)
    for epoch in range(12 if of_noise == 0 else 6):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    audit = canaries.audit(model, engine.get_epsilon(1e-5), engine=engine)
    scores, members = audit.scores["score"], canaries.members
    gap = (scores[members].mean() - scores[~members].mean()) / scores[~members].std()
    spread = audit["training"]["watched"]["directions"]["spread"]
    return [
        canaries.state, audit.epsilon_lower, audit.warnings, audit.verdict, gap, spread,
        audit["step_bets"],
    ]


tossed = Canaries(table(), 101, out="tossed")  # its coins come from rank 0
seen = {
    "tossed": tossed.state,
    "plain": plain(),
    "private": private("private", 1),
    "noise off": private("off", 0),
}
with open(f"rank-{rank}.json", "w") as file:
    json.dump(seen, file)
distributed.barrier()
distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Return what each of two ranks saw of three trainings."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "rank.py").write_text(RANK)
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    common = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "rank.py"],
            env={**common, "RANK": str(rank)},
            cwd=folder,
        )
        for rank in (0, 1)
    ]
    try:
        assert [one.wait(timeout=300) for one in ranks] == [0, 0]
    finally:
        for one in ranks:
            one.kill()
    return folder, [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1)]


pytestmark = pytest.mark.slow


def test_two_ranks_have_the_same_canaries_and_audits(seen):
    folder, (first, second) = seen
    assert first == second
    assert json.loads((folder / "run/canaries.json").read_text()) == first["plain"][0]
    files = {"canaries.json", "record.json", "scores.csv"}
    assert files <= {path.name for path in (folder / "run").iterdir()}


def test_ranks_share_the_scoring_of_a_training_without_privacy(seen):
    _, epsilon_lower, warnings, _ = seen[1][0]["plain"]
    assert epsilon_lower > 0.2
    assert warnings == []


def test_gradients_of_both_ranks_carry_their_canaries(seen):
    """Noise comes from rank 0 alone, and a step is the mean over the ranks."""
    _, epsilon_lower, warnings, verdict, gap, spread, bets = seen[1][0]["private"]
    assert (warnings, verdict) == ([], "consistent")
    assert gap > 0.3
    assert 0.8 < spread < 1.5, "the noise multiplier is 1"
    assert bets["steps"] > 20
    assert bets["p_value"] > 1e-6
    assert epsilon_lower >= 0


def test_bets_see_the_canaries_of_all_ranks(seen):
    *_, warnings, verdict, _, spread, bets = seen[1][0]["noise off"]
    assert spread < 0.8
    assert bets["p_value"] < 1e-6
    assert verdict != "consistent"
    assert any("refute the stated noise" in one for one in warnings)
