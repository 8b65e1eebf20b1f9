"""Opacus: the accountants of its privacy engine. They count Poisson-sampled Gaussian steps."""

import importlib.metadata

from opacus import accountants


def asked(kind):
    def ask(question):
        if question["relation"] != "add-remove":
            raise NotImplementedError("Opacus accounts for add-remove")
        accountant = kind()
        for step in question["steps"]:
            if step["noise"] != "gaussian" or step["sampling"] == "fixed":
                raise NotImplementedError("Opacus accounts for Poisson samples with Gaussian noise")
            accountant.history.append((step["scale"], step["rate"], step["count"]))
        if kind is accountants.GaussianAccountant and len(accountant.history) > 1:
            raise NotImplementedError("its GDP accountant needs equal steps")
        return [accountant.get_epsilon(delta=delta) for delta in question["deltas"]]

    return ask


VERSION = importlib.metadata.version("opacus")
_STATEMENT = "add-remove; Gaussian, Poisson or no sample"
ACCOUNTANTS = {
    "Opacus RDP": (asked(accountants.RDPAccountant), "upper", _STATEMENT),
    "Opacus GDP": (
        asked(accountants.GaussianAccountant),
        "upper",
        _STATEMENT + "; an approximation, equal steps",
    ),
    "Opacus PRV": (asked(accountants.PRVAccountant), "upper", _STATEMENT),
}
