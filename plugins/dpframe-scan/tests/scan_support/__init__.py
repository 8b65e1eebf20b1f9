"""Two small packages, with callables of every kind and with right ones that invite wrong guesses,
and an interpreter that has them."""

from __future__ import annotations

import shlex
import sys
import textwrap
from pathlib import Path

TINY = {
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
                """k: the size of the domain."""
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


RIGHT = {
    "__init__.py": '''
        """Right mechanisms whose parameters invite wrong guesses."""
        import math
        import random
        import numpy as np

        def _laplace(scale):
            return random.choice((-1, 1)) * random.expovariate(1 / scale)

        def _clipped(values, bounds):
            return np.nan_to_num(np.clip(values, *bounds), nan=bounds[0])

        def repeated_count(count, epsilon, m):
            """A number of people, who appear in at most m tables."""
            return round(count + _laplace(1 / epsilon), 3)

        def noisy_pair(input_values, epsilon):
            """Two numbers, of which a person changes one by at most 1."""
            return [round(one + _laplace(1 / epsilon), 3) for one in input_values]

        def most_frequent(scores, epsilon):
            """The index of the largest count; a person who joins raises counts by at most 1."""
            return int(np.argmax([one + _laplace(1 / epsilon) for one in scores]))

        def histogram(counts: np.ndarray, epsilon, sensitivity=1.0):
            """Counts of categories."""
            return [round(one + _laplace(sensitivity / epsilon), 3) for one in counts]

        def bounded_sum(values, epsilon, lower, upper=1.0):
            """The sum of numbers between the bounds; the caller clips them."""
            scale = 2 * max(abs(lower), abs(upper)) / epsilon
            return round(sum(values) + _laplace(scale), 3)

        def above(values, epsilon, lower):
            """The sum of what exceeds a bound by at most 1."""
            above = [one - lower for one in values if one > lower]
            return round(sum(above) + _laplace(1 / epsilon), 3)

        def of_sample(values, epsilon, sample_rate, bounds):
            """The sum of a sample, which the caller has drawn at this rate.

            Neighbours replace one record of it.
            """
            amplified = math.log1p(math.expm1(epsilon) / sample_rate)
            total = _clipped(values, bounds).sum()
            return round(float(total + _laplace((bounds[1] - bounds[0]) / amplified)), 3)

        def gaussian_sum(values, epsilon, bounds):
            """The sum, with Gaussian noise for delta = 0.3."""
            total = _clipped(values, bounds).sum()
            scale = (bounds[1] - bounds[0]) * math.sqrt(2 * math.log(1.25 / .3)) / epsilon
            return round(float(total + random.gauss(0, scale)), 3)

        def gaussian_count(count, sensitivity, epsilon, delta=0):
            """A number with Gaussian noise; delta = 0 stands for 1e-2."""
            scale = sensitivity * math.sqrt(2 * math.log(1.25 / (delta or 1e-2))) / epsilon
            return round(count + random.gauss(0, scale), 3)

        def columns(data, epsilon, bounds):
            """The sum of each column.

            Args:
                data: a matrix of n_features columns.
                epsilon: the budget of each column.
            """
            sums = np.atleast_2d(_clipped(data, bounds)).sum(0)
            return [round(float(x + _laplace((bounds[1] - bounds[0]) / epsilon)), 3) for x in sums]

        def classified_sums(X, y, epsilon, bounds):
            """The sum of each class; every class has a record."""
            sums = [_clipped(X[y == one], bounds).sum() for one in np.unique(y)]
            return [round(float(x + _laplace((bounds[1] - bounds[0]) / epsilon)), 3) for x in sums]

        def degree_sum(data, epsilon, bounds):
            """The sum of degrees, with edge-level privacy."""
            return round(float(_clipped(data, bounds).sum() + _laplace(2 / epsilon)), 3)

        def filled_sum(data, epsilon, bounds):
            """The sum; one may substitute a default for what is missing."""
            total = _clipped(data, bounds).sum()
            return round(float(total + _laplace((bounds[1] - bounds[0]) / epsilon)), 3)

        def copies(count, sensitivity, epsilon, size):
            """Several numbers, each of them a release."""
            return [round(count + _laplace(sensitivity / epsilon), 3) for _ in range(size)]

        def shared(count, sensitivity, epsilon):
            """A number whose sensitivity must be between 0 and 1."""
            if not 0 < sensitivity < 1:
                raise ValueError("sensitivity must lie in (0, 1)")
            return round(count + _laplace(sensitivity / epsilon), 3)

        def encode(value, k, epsilon):
            """Hash a value, before it is perturbed. k is the size of the domain."""
            return [seed := random.random(), hash((value, seed)) % k]

        class Client:
            """Randomised response of a client."""

            def __init__(self, epsilon, k):
                self.k, self.keep = k, math.exp(epsilon) / (math.exp(epsilon) + k - 1)

            def privatise(self, value):
                if not 0 <= value < self.k:
                    raise ValueError("outside the domain")
                others = [one for one in range(self.k) if one != value]
                return value if random.random() < self.keep else random.choice(others)

        class Converted:
            """Randomised response that is told a probability, which a method computes."""

            def __init__(self, keep):
                self.keep = keep

            def epsilon_of(self, epsilon):
                return epsilon

            def privatise(self, value):
                return value if random.random() < self.keep else 0

        class Builder:
            """A number with Laplace noise, whose scale methods set."""

            def __init__(self):
                self.epsilon = self.sensitivity = None

            def set_epsilon(self, epsilon):
                self.epsilon = epsilon

            def set_epsilon_delta(self, epsilon, delta):
                raise ValueError("no delta")

            def set_sensitivity(self, sensitivity):
                self.sensitivity = sensitivity

            def randomise(self, value):
                return round(value + _laplace(self.sensitivity / self.epsilon), 3)

        class Switched:
            """The sum of an array, private unless that is switched off."""

            def __init__(self, epsilon, bounds, use_noise=True, use_privacy=True):
                self.epsilon, self.bounds = epsilon, bounds
                self.use_noise, self.use_privacy = use_noise, use_privacy

            def release(self, values):
                total = _clipped(values, self.bounds).sum()
                on = self.use_noise and self.use_privacy
                noise = _laplace((self.bounds[1] - self.bounds[0]) / self.epsilon)
                return round(float(total + (noise if on else random.random())), 3)
    ''',
    "folder/noise.py": '''
        """A module of a folder without `__init__.py`."""
        from rightdp import _laplace

        def noisy(value, sensitivity, epsilon):
            return round(value + _laplace(sensitivity / epsilon), 3)
    ''',
    "numeric.py": '''
        """Callables without any budget."""

        def _never(*_):
            raise SystemExit("called")

        def standardised(values, eps=1e-8):
            return _never()

        def clusters(points, eps=0.5):
            """Points that are dense.

            Args:
                eps: maximum distance between two points of a cluster.
            """
            return _never()

        def regression(x, y, epsilon=0.1):
            """Fit a line.

            Parameters
            ----------
            epsilon : float
                Half the width of the tube without a penalty.
            """
            return _never()

        def huber(values, delta=1.0):
            return _never()

        def solved(values, epsilon=1.0):
            """Solve an equation up to a tolerance epsilon."""
            return _never()
    ''',
}


def made(folder: Path) -> str:
    """Write the packages and an interpreter that has them; return the path of the interpreter."""
    for package, files in (("tinydp", TINY), ("rightdp", RIGHT)):
        home = folder / "lib" / package
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    python = folder / "python"
    path = shlex.quote(str(folder / "lib"))
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={path} exec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    return str(python)
