"""A small package with callables of every kind, and an interpreter that has it."""

from __future__ import annotations

import shlex
import sys
import textwrap
from pathlib import Path

FILES = {
    "__init__.py": '''
        """Private statistics."""
        from tinydp.mechanisms import Laplace, Report
        from tinydp.models import Means
    ''',
    "tools.py": '''
        """Statistics of a column."""
        import random
        import numpy as np

        def _laplace(scale):
            return random.choice((-1, 1)) * random.expovariate(1 / scale)

        def dp_sum(array, epsilon=1.0, bounds=None):
            """The sum of an array: neighbours replace one record.

            Parameters
            ----------
            array : array_like
                The numbers.
            bounds : tuple
                Lower and upper bound of the numbers.
            """
            array = np.nan_to_num(np.clip(array, *bounds), nan=bounds[0])
            return round(float(array.sum() + _laplace((bounds[1] - bounds[0]) / epsilon)), 3)

        def wrong_sum(array, epsilon=1.0, bounds=None):
            """The same with noise that is too small."""
            array = np.clip(array, *bounds)
            return float(array.sum() + _laplace((bounds[1] - bounds[0]) / 50 / epsilon))

        def unit_sum(values, epsilon):
            """The sum of numbers from 0 to 1."""
            return round(sum(values) + _laplace(1 / epsilon), 3)

        def licensed(data, epsilon):
            """Never works."""
            raise RuntimeError("no licence")

        def compute_sigma(epsilon, delta):
            return 1 / epsilon

        def plain(x):
            """Takes no budget, so it must never be called."""
            raise SystemExit("called")
    ''',
    "mechanisms.py": '''
        """Noise for one number."""
        import random
        from tinydp.tools import _laplace

        class Laplace:
            def __init__(self, *, epsilon, sensitivity):
                if not isinstance(sensitivity, int):
                    raise TypeError("sensitivity must be an integer")
                self.scale = sensitivity / epsilon

            def randomise(self, value):
                return round(value + _laplace(self.scale), 3)

        class Report:
            """Randomised response of one user; it keeps the value too often."""
            def __init__(self, epsilon, k):
                self.k = k

            def privatise(self, value):
                return value if random.random() < .9 else random.randrange(self.k)

        class Accountant:
            def __init__(self, epsilon):
                self.left = epsilon

            def spend(self, epsilon):
                self.left -= epsilon
    ''',
    "models.py": '''
        """Models."""
        import numpy as np
        from tinydp.tools import _laplace

        class Means:
            """The mean of each class.

            Attributes
            ----------
            theta_ : array
                The noisy means, one for each class in the data.
            labels_ : array
                The class of each record.
            """
            def __init__(self, epsilon=1.0, bounds=None):
                self.epsilon, self.bounds = epsilon, bounds

            def fit(self, X, y):
                low, high = self.bounds
                X = np.nan_to_num(np.clip(X, low, high), nan=low)
                self.labels_ = y
                self.theta_ = np.array([
                    X[y == one].sum(0) + _laplace((high - low) * 2 * X.shape[1] / self.epsilon)
                    for one in np.unique(y)
                ]).round(3)
                return self
    ''',
    "tools_test.py": "raise SystemExit('imported')\n",
    "accounting.py": '''
        """Budgets of several releases."""

        def composed(epsilon, number):
            return epsilon * number
    ''',
    "broken.py": "import a_module_that_is_not_there\n",
}


def made(folder: Path) -> str:
    """Write the package and an interpreter that has it; return the path of the interpreter."""
    home = folder / "lib" / "tinydp"
    home.mkdir(parents=True)
    for name, text in FILES.items():
        (home / name).write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    python = folder / "python"
    path = shlex.quote(str(home.parent))
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={path} exec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    return str(python)
