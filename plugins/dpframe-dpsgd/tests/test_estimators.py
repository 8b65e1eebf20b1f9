"""`dpframe.audit_training` of estimators of scikit-learn, and of diffprivlib where it is installed.

diffprivlib needs older versions of scikit-learn, so it is not in the usual environment.
"""

import importlib.util

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpframe import DpframeError, audit_training

X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
Y = (X[:, 0] > 0).astype(int)
D, WITH_RECORD = (X, Y), (np.vstack([X, [[-1.0, -1.0]]]), np.append(Y, 1))


class NoisyRegression(LogisticRegression):
    """Logistic regression with noise on its weights.

    Without an intercept the objective ‖w‖²/2 + C Σ losses is 1-strongly convex, and a loss changes
    by at most √2 ‖w − w′‖ with features in [−1, 1]². So a record moves the weights by at most √2 C,
    and noise of density exp(−‖b‖/(2 √2 C)) makes them ½-DP.
    """

    strength = 0.1

    def __init__(self, random_state=None):
        super().__init__(C=self.strength, fit_intercept=False, random_state=random_state)

    def fit(self, x, y):
        super().fit(x, y)
        rng = np.random.default_rng(self.random_state)
        direction = rng.normal(size=self.coef_.shape)
        length = rng.gamma(self.coef_.size, 2 * 2**0.5 * self.strength)
        self.coef_ = self.coef_ + length * direction / np.linalg.norm(direction)
        return self


ESTIMATORS = {
    "without noise": (GaussianNB(), "violated"),
    "in a pipeline": (make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss")), "violated"),
    "private": (NoisyRegression(), "consistent"),
}
if importlib.util.find_spec("diffprivlib"):
    from diffprivlib import models

    ESTIMATORS["diffprivlib"] = (models.GaussianNB(epsilon=1.0, bounds=(-1, 1)), "consistent")


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_is_audited_in_one_call(name):
    estimator, verdict = ESTIMATORS[name]
    record = audit_training(estimator, (D, WITH_RECORD), epsilon=1.0, models=60, quiet=True)
    (cell,) = record.cells
    assert cell.status == "ok"
    assert cell.verdict == verdict
    assert not hasattr(estimator, "classes_")


def test_a_fitted_estimator_is_refused():
    with pytest.raises(DpframeError, match="this GaussianNB is fitted already"):
        audit_training(GaussianNB().fit(X, Y), (D, WITH_RECORD))
    with pytest.raises(DpframeError, match="this Pipeline is fitted already"):
        audit_training(make_pipeline(StandardScaler(), GaussianNB().fit(X, Y)), (D, WITH_RECORD))


def test_an_estimator_without_predictions_is_refused():
    with pytest.raises(DpframeError, match="StandardScaler has fit, but no decision_function"):
        audit_training(StandardScaler(), (D, WITH_RECORD))
