"""Releases by DataSynthesizer: noisy counts for PrivBayes, and the description of an attribute."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import sys
import tempfile

import numpy as np
import pandas as pd

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.lib.PrivBayes import get_noisy_distribution_of_attributes
from library_tables import codes

FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def prepare(params, data):
    """Return a function that makes one release of `params["release"]`."""
    return {"counts": _counts, "describe": _describe}[params["release"]](params, data)


def _counts(params, data):
    """Return noisy counts of the combinations of two attributes with equally many values.

    One public record has the last value of both, so that the shape does not depend on the data.
    """
    last = len(params["categories"]) - 1
    columns = [codes({**params, "clean": True}, data, at) for at in (0, 1)]
    frame = pd.DataFrame({"a": [*columns[0], last], "b": [*columns[1], last]})

    def release():
        np.random.seed(secrets.randbits(32))
        noisy = get_noisy_distribution_of_attributes(["a", "b"], frame.copy(), params["epsilon"])
        return noisy["count"].to_numpy()

    return release


def _describe(params, data):
    """Return the distribution of one attribute; one record of each category is public."""
    categories = list(params["categories"])
    values = [categories[at] for at in codes({**params, "clean": True}, data)]
    handle, path = tempfile.mkstemp(".csv", dir=FOLDER)
    with os.fdopen(handle, "w") as file:
        file.write("\n".join(["a", *categories, *values, ""]))
    seeded = {} if params["seed"] == "default" else None

    def release():
        describer = DataDescriber()
        describer.describe_dataset_in_independent_attribute_mode(
            path,
            epsilon=params["epsilon"],
            attribute_to_datatype={"a": "String"},
            attribute_to_is_categorical={"a": True},
            **({"seed": secrets.randbits(32)} if seeded is None else seeded),
        )
        described = describer.data_description["attribute_description"]["a"]
        return list(map(float, described["distribution_probabilities"]))

    return release
