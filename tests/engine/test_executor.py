"""A run loads and starts what it needs: no pool, no cluster and no search for a traced audit."""

from __future__ import annotations

import pytest
from support import processes

CODE = """
import sys
import pytest
import dpframe

dpframe.audit({
    "schema": 1,
    "audit": {"name": "t", "trials": 2000, "seed": 1},
    "pair": {"use": "zeros-ones"},
    "mechanism": [{"use": "laplace", "params": {"epsilon": 1.0}}],
    "attack": [{"use": "identity"}],
    "estimator": [{"use": "order-statistics"}],
})
rooms = ("dpframe.cluster", "dpframe.search", "dpframe.engine.host")
rooms += ("dpframe.workers.pool", "dpframe.workers.process")
print([name for name in sys.modules if name.startswith(rooms)])
"""


@pytest.mark.slow
def test_a_traced_audit_loads_no_pool_no_cluster_and_no_search() -> None:
    done = processes.run("-c", CODE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_worker_process_imports_no_jax() -> None:
    """It would take most of the time in which a process starts."""
    code = "import sys; import dpframe.workers.program.mechanism_sampler"
    done = processes.run("-c", f"{code}; print('jax' in sys.modules)")
    assert done.stdout.strip() == "False", done.stdout + done.stderr
