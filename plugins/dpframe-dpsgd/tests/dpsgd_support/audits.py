"""Small white-box audits."""

import dpframe

SMALL = {
    "width": 8,
    "steps": 20,
    "batch": 10,
    "noise_multiplier": 2.0,
    "clip": 2.0,
    "canary_norm": 5.0,
    "canary_direction": "fixed",
    "output": "steps",
}


def white_box(
    use, *, models, mistakes=None, plugins=(), seed=0, canary="gradient", records=20, **params
):
    """Return the record of an audit of one trainer that uses every white-box view."""
    params = {key: value for key, value in {**SMALL, **params}.items() if value is not None}
    if mistakes:
        params["mistake"] = mistakes[0]
    return dpframe.audit(
        {
            "schema": 1,
            "audit": {"name": "white-box", "trials": models, "confidence": 0.9999, "seed": seed},
            "pair": {"use": "canary", "params": {"canary": canary, "records": records}},
            "mechanism": [{"use": use, "params": params}],
            "attack": [
                {"use": "canary-search", "label": "search"},
                {
                    "use": "canary-steps",
                    "label": "ratio",
                    "params": {"combine": "likelihood-ratio"},
                },
            ],
            "estimator": [{"use": "order-statistics"}],
            "sweep": {"mechanism.mistake": mistakes} if mistakes else {},
            "run": {"fit": models, "pilot": models},
        },
        plugins=plugins,
    )


def verdict(record, mistake=None):
    """Return "violated" if any attack finds it; failed cells have no verdict."""
    cells = [
        cell
        for cell in record["cells"]
        if mistake is None or cell["swept"]["mechanism.mistake"] == mistake
    ]
    assert cells
    verdicts = {cell["verdict"] for cell in cells}
    return "violated" if "violated" in verdicts else verdicts.pop()
