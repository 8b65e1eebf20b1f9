"""One-run privacy audits of PyTorch training scripts."""

from dpframe_torch.auditing import Audit
from dpframe_torch.canaries import Canaries
from dpframe_torch.records import CanaryError
from dpframe_torch.text import TextCanaries

__all__ = ["Audit", "Canaries", "CanaryError", "TextCanaries"]
