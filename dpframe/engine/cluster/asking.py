"""What is sent to a worker so that it draws from a box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.engine.cluster.client import Job
from dpframe.engine.cluster.drawing import Asked
from dpframe.engine.cluster.parts import plugin_classes
from dpframe.engine.cluster.surroundings import kind_of, needed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.engine.addresses.shape import Shape
    from dpframe.engine.boxes.lending import Load, Request
    from dpframe.engine.cluster.surroundings import Needed
    from dpframe.environments.model import Environment


class Asking:
    """Makes tasks of one run.

    Args:
        run: by which workers know it.
        environments: of the run.
    """

    def __init__(self, run: str, environments: Iterable[Environment]) -> None:
        self._run, self._environments = run, tuple(environments)
        self._needed: dict[str, Needed] = {}

    def job(self, load: Load) -> Job:
        """A load as it travels."""
        classes = (*plugin_classes(load.content[0]), *map(type, load.content[0]))
        return Job(load, lambda: load.content, tuple(dict.fromkeys(classes)), kind_of(load))

    def asked(
        self, load: Load, request: Request, shape: Shape | None, seconds: float | None
    ) -> Asked:
        """What of it is drawn, and what a worker has to have for that."""
        kind = kind_of(load)
        if kind not in self._needed:
            self._needed[kind] = needed(load.content[0], self._environments)
        return Asked(self._run, request, shape, seconds, self._needed[kind])
