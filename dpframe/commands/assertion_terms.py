"""The terms of an audit as a test: its claim, its budget and the settings of each call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dpframe.claims import ApproxDP, Claim, PureDP
from dpframe.commands.audit_training import check_positive, is_number
from dpframe.errors import DpframeError
from dpframe.interfaces.registry import LOCAL

UNLIMITED = 2**40  # trials if only the time is limited
GIVEN_PAIR = "given"  # the name of a test's own pair
OUTPUTS = ("time", "bits", "messages")  # parts of an answer that may be asked for
VECTOR_ADJACENCIES = ("each-by-one", "one-by-one")  # neighbours of a vector of query answers


class AssertionTerms(NamedTuple):
    """The claim, the budget of the audit, and the settings of each call."""

    epsilon: float | None
    delta: float
    claim: Claim | None
    confidence: float
    seconds: float | None  # None: no limit
    extended: float | None  # seconds in all as long as nothing could have refuted the claim
    trials: int | None
    seed: int
    query: Callable[[Any], Any] | None  # the value without noise, which is compared exactly
    choices: Callable[[Any], Any] | None  # the distribution of an answer
    sensitivity: float | None
    norm: float
    attributes: Sequence[str]  # attributes to read from an answer that is an object
    raises: str | None
    limit: float | None
    outputs: Mapping[str, bool] | None
    constant: bool  # True if all answers may be equal
    trace: bool = False  # True if plugins also trace the noise
    parameters: Mapping[str, Any] | None = None  # arguments that a search varies

    def claimed(self) -> Claim:
        """Return the claim; raise DpframeError if there is none, or two."""
        if self.claim is not None:
            if self.epsilon is not None or self.delta != 0:
                raise DpframeError("claim: give either the claim or epsilon and delta")
            if not isinstance(self.claim, Claim):
                raise DpframeError(
                    f"claim: {self.claim!r} is not a claim; pass one, such as GaussianDP(1.0)"
                )
            return self.claim
        if not is_number(self.epsilon):
            raise DpframeError(f"epsilon: pass the claimed ε, a number, not {self.epsilon!r}")
        if not is_number(self.delta):
            raise DpframeError(f"delta: {self.delta!r} is not a number")
        try:
            epsilon, delta = float(self.epsilon), float(self.delta)  # type: ignore[arg-type]
            return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
        except ValueError as error:
            raise DpframeError(f"epsilon, delta: {error}") from None

    def check(self) -> None:
        """Raise DpframeError if a setting makes no sense."""
        for name in ("seconds", "limit"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        level, names, outputs = self.confidence, self.attributes, self.outputs
        of_names = isinstance(names, list | tuple) and all(isinstance(one, str) for one in names)
        of_outputs = outputs is None or (
            isinstance(outputs, Mapping)
            and all(key in OUTPUTS and isinstance(on, bool) for key, on in outputs.items())
        )
        for name, valid, wanted in (
            ("confidence", is_number(level) and 0 < level < 1, "between 0 and 1"),
            ("raises", self.raises in (None, "answer", "fail"), '"answer" or "fail"'),
            ("attributes", of_names, "a list of names"),
            ("constant", isinstance(self.constant, bool), "true or false"),
            ("trace", isinstance(self.trace, bool), "true or false"),
            ("outputs", of_outputs, 'a dict of "time", "bits" and "messages", each true or false'),
        ):
            if not valid:
                raise DpframeError(f"{name}: {getattr(self, name)!r} is not {wanted}")

    def spec(self, mechanism: str, search: dict[str, Any]) -> dict[str, Any]:
        """Return the spec of the audit."""
        if self.parameters:
            varied = {f"mechanism.{name}": values for name, values in self.parameters.items()}
            search = {**search, "parameters": varied}
        called = {
            "raises": self.raises and str(self.raises),
            "limit": self.limit and float(self.limit),
            "outputs": None if self.outputs is None else dict(self.outputs),
            "constant": self.constant or None,
        }
        return {
            "schema": 1,
            "audit": {
                "name": mechanism,
                "seed": self.seed,
                "trials": UNLIMITED if self.trials is None else self.trials,
                "confidence": float(self.confidence),
            },
            "search": search,
            # The distribution is named because a function may have the name of a built-in
            # mechanism.
            "mechanism": [{"use": f"{LOCAL}/{mechanism}", **called}],
            "run": {
                "seconds": None if self.seconds is None else float(self.seconds),
                "stop": "decided",
            },
        }
