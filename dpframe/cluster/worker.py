"""The code that runs on a worker of a cluster."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import inspect
import os
import pickle
import re
import secrets
import sys
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import jax
import numpy as np

from dpframe import __version__
from dpframe.common.text import error_message
from dpframe.engine.fingerprint import code_digest
from dpframe.environments import places as place
from dpframe.environments.places import NoAnswerError
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.mechanism import ForeignMechanism, consent
from dpframe.interfaces.plugin import Plugin
from dpframe.sampling.address import digest, pieces
from dpframe.sampling.compile_cache import keep_compiled_programs
from dpframe.sampling.programs import count_segment, drawn
from dpframe.workers.pool import Workers
from dpframe.workers.scheduling import (
    Load,
    LostError,
    Overdue,
    RaisedError,
    Stopped,
    Told,
    by_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dpframe.common.types import HostArray
    from dpframe.environments.places import Environment
    from dpframe.sampling.address import Segment, Shape
    from dpframe.sampling.programs import CountTask, Place
    from dpframe.workers.scheduling import Lent, Request


# What travels to a worker, and how a worker knows that it would count the same.


class Sent(NamedTuple):
    """A value on its way, with all that has to be the same where it arrives."""

    digest: str
    """Of the content: workers keep what they have unpacked."""
    content: bytes
    versions: dict[str, str]
    code: dict[str, str]
    """Digest of the code of every plugin class in it, by module and name; of those that travel as
    code themselves there is none."""


class Refused(Exception):  # noqa: N818  # the run says it, as its own error
    """A worker would not count the same; the message says why."""


class Missing(Exception):  # noqa: N818  # answered by sending the code along
    """A worker lacks a module that the run has."""


def versions() -> dict[str, str]:
    """What has to be the same on all machines, for counts to be."""
    return {
        "dpframe": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "backend": jax.default_backend(),
    }


def pack(value: Any, classes: Iterable[type], *, as_code: bool = False) -> Sent:
    """A value as it travels.

    Args:
        value: anything that can be pickled.
        classes: of the plugins in it.
        as_code: whether the modules of these classes travel with it.
    """
    listed = list(classes)
    with contextlib.ExitStack() as stack:
        if as_code:
            for name in {cls.__module__ for cls in listed} - {"__main__"}:
                if name.partition(".")[0] != "dpframe" and name in sys.modules:
                    stack.enter_context(by_value(sys.modules[name]))
        content = cloudpickle.dumps(value)
    code = {} if as_code else {_name(cls): code_digest(cls) for cls in listed if _is_found(cls)}
    return Sent(hashlib.blake2b(content, digest_size=16).hexdigest(), content, versions(), code)


def unpack(sent: Sent) -> Any:
    """The value again.

    Raises:
        Refused: something here is not what it is where this was sent from.
        Missing: a module is not here.
    """
    here = versions()
    if differences := [
        f"{name} {here[name]} where the run has {wanted}"
        for name, wanted in sent.versions.items()
        if here[name] != wanted
    ]:
        raise Refused("a worker has " + ", ".join(differences))
    try:
        value = pickle.loads(sent.content)
    except (ImportError, AttributeError) as error:
        raise Missing(f"{type(error).__name__}: {error}") from None
    for name, expected in sent.code.items():
        module, _, qualified = name.partition(":")
        cls: Any = sys.modules.get(module)
        for part in qualified.split("."):
            cls = getattr(cls, part, None)
        if cls is None or code_digest(cls) != expected:
            raise Refused(f"a worker has other code of {qualified} (module {module}) than the run")
    return value


def plugin_classes(values: Iterable[Any]) -> list[type]:
    """The classes of plugins among some values."""
    return list(dict.fromkeys(type(value) for value in values if isinstance(value, Plugin)))


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _is_found(cls: type) -> bool:
    """Whether it is pickled by its name."""
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls and cls.__module__ != "__main__"


# What a black box needs where it is drawn: its program, its libraries, its environment.


_FROM = re.compile(r"^\s*from\s+(\w+)[\w.]*\s+import\b", re.MULTILINE)
_IMPORT = re.compile(r"^\s*import\s+([\w., ]+)", re.MULTILINE)


class Needed(NamedTuple):
    """What has to be the same where a box is drawn."""

    libraries: Mapping[str, str] = {}
    """Versions of the distributions that its code imports, by their names."""
    program: tuple[str, str] | None = None
    """Path of the program that it runs, and digest of its code."""
    environment: Environment | None = None
    """Where that runs."""
    folder: str = ""
    """Its interpreter below the directory of all environments; "" if it lies elsewhere."""


def needed(mechanisms: tuple[Any, ...], environments: Iterable[Environment]) -> Needed:
    """What boxes of one kind need, as it is here.

    Args:
        mechanisms: of a load.
        environments: of the run.
    """
    first = mechanisms[0]
    if not isinstance(first, ForeignMechanism):
        kind: Any = type(first)
        return Needed(_libraries(_files_of(kind)))
    path = first.program().path
    program = str(path), first.code()
    if first.environment is None:
        return Needed(_libraries((str(path),)), program)
    found = next((one for one in environments if one.name == first.environment), None)
    folder = ""
    if found is not None and Path(found.interpreter).is_relative_to(place.root()):
        folder = str(Path(found.interpreter).relative_to(place.root()))
    return Needed({}, program, found, folder)


def kind_of(load: Load) -> str:
    """What boxes have in common that the same workers can draw; to be read up to a #."""
    first: Any = load.content[0][0]
    own: list[Any] = [type(first).__module__, type(first).__qualname__, id(type(first))]
    where = ""
    if isinstance(first, ForeignMechanism):
        own.append(str(first.program().path))
        where = f" in {first.environment}" if first.environment else ""
    return f"{type(first).name}{where}#{digest(own)}"


def check(mechanisms: tuple[Any, ...], wanted: Needed) -> dict[str, str]:
    """The interpreters that a box needs here, by the names of environments.

    Raises:
        Refused: something is missing here, or is another version.
    """
    here = _versions(tuple(wanted.libraries))
    if differences := [
        f"{name} {here[name] or 'not at all'} where the run has {version}"
        for name, version in wanted.libraries.items()
        if here[name] != version
    ]:
        raise Refused("a worker has " + ", ".join(differences))
    if wanted.program is not None:
        _check_program(mechanisms[0], *wanted.program)
    if wanted.environment is None:
        return {}
    return {wanted.environment.name: _interpreter(wanted.environment, wanted.folder)}


def _check_program(mechanism: Any, path: str, digest: str) -> None:
    name = Path(path).name
    if not Path(path).is_file():
        raise Refused(f"a worker does not have the program {name} where the run has it")
    consent(Path(path))  # whoever started the run has named it
    try:
        found = mechanism.code()
    except (OSError, ValueError) as error:
        raise Refused(f"a worker cannot read the program {name}: {error}") from None
    if found != digest:
        raise Refused(f"a worker has another program {name} than the run")


def _interpreter(wanted: Environment, folder: str) -> str:
    places = [str(place.root() / folder)] if folder else []
    problem = "it is not there (dpframe environments build builds it)"
    for path in dict.fromkeys([*places, wanted.interpreter]):
        if not Path(path).exists():
            continue
        try:
            version, installed = _told_by(path)
        except NoAnswerError as error:
            problem = str(error)
            continue
        if (version, installed) == (wanted.python, wanted.installed):
            return path
        problem = _difference(version, installed, wanted)
    raise Refused(f"a worker cannot use the environment {wanted.name!r}: {problem}")


def _difference(version: str, installed: tuple[str, ...], wanted: Environment) -> str:
    if version != wanted.python:
        return f"it is Python {version} where the run has {wanted.python}"
    odd = sorted({*installed} ^ {*wanted.installed})
    return f"other packages are installed than in that of the run ({', '.join(odd[:4])})"


_told_by = functools.cache(place.ask)


def _libraries(files: tuple[str, ...]) -> dict[str, str]:
    """Versions of the distributions that some files import, anywhere in them."""
    imported = {name for file in files for name in _imports(file)}
    owners = _owners()
    names = {one for name in imported for one in owners.get(name, ())}
    return {name: version for name, version in _versions(tuple(sorted(names))).items() if version}


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


@functools.cache
def _imports(file: str) -> frozenset[str]:
    """Packages whose names stand after `import` or `from`.

    Read as text: Python 3.11 cannot parse on several threads at once. What only looks like an
    import belongs to no distribution.
    """
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = set(_FROM.findall(text))
    for names in _IMPORT.findall(text):
        found.update(name.split()[0].partition(".")[0] for name in names.split(",") if name.strip())
    return frozenset(found - {"dpframe", *sys.stdlib_module_names})


@functools.cache
def _files_of(cls: type) -> tuple[str, ...]:
    """The files of the package, or the module, that defines a class; none of dpframe."""
    top = cls.__module__.partition(".")[0]
    folders = getattr(sys.modules.get(top), "__path__", None)
    if top == "dpframe":
        return ()
    try:
        if folders:
            return tuple(str(file) for one in folders for file in sorted(Path(one).rglob("*.py")))
        return (inspect.getfile(cls),)
    except (OSError, TypeError):
        return ()


@functools.cache
def _versions(names: tuple[str, ...]) -> dict[str, str]:
    """Of distributions; "" of those that are not here."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found


# What a worker of a cluster does: it unpacks a task once, and counts or draws parts of it.


KEPT = 8
"""Count tasks that a worker keeps unpacked."""

_known: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()

Answer = tuple[str, Any]
"""What became of a task, and the counts or the reason. What fails is an answer: an exception would
be tried again, and its class may not be known where it arrives."""


def keep_apart(addresses: list[str], dask_worker: Any) -> None:
    """Keeps every worker of this machine to its share of the cores; all are told at once.

    Args:
        addresses: of all of them.
        dask_worker: the one that does this.
    """
    keep_to_share(addresses.index(dask_worker.address), len(addresses))


def keep_to_share(place: int, of: int) -> None:
    """Keeps this process to its share of the cores it may use, where the system lets it.

    Args:
        place: which of them it is, from 0.
        of: workers that share the cores.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[place::of] or [cores[place % len(cores)]])


def same(value: Any) -> Any:
    """The value itself: as a task it is sent to a worker once, and again if that is lost."""
    return value


def versions_there() -> dict[str, str]:
    """What a worker has."""
    return versions()


def answer_counted(*task: Any) -> tuple[Any, ...]:
    """What `count` gives, and which worker says so."""
    return (*count(*task), _me())


def answer_drawn(*task: Any) -> tuple[Any, ...]:
    """What `draw` gives, and which worker says so."""
    return (*draw(*task), _me())


def _me() -> Any:
    from distributed import get_worker

    return get_worker().address


def count(sent: Sent, lanes: tuple[int, ...], index: int, segment: Segment) -> Answer:
    """Counts a segment.

    Args:
        sent: the task.
        lanes: which of its lanes.
        index: of the dataset.
        segment: which chunks.
    """

    def counted(task: CountTask) -> Any:
        with jax.enable_x64(task.precision == "float64"):
            return _in_pieces(task, lanes, index, segment)

    return _answered("counted", sent, counted)


def draw(sent: Sent, place: Place) -> Answer:
    """Draws some chunks.

    Args:
        sent: the task.
        place: which chunks.
    """
    return _answered("drawn", sent, lambda task: drawn(task, place))


def _answered(done: str, sent: Sent, do: Callable[[Any], Any]) -> Answer:
    try:
        return done, do(unpacked(sent))
    except Refused as refused:
        return "refused", str(refused)
    except Missing as missing:
        return "missing", str(missing)
    except CellError as error:
        return "failed", str(error)
    except Exception as error:  # of this machine: memory, a disk; another one may do better
        return "broken", error_message(error)


def _in_pieces(task: CountTask, lanes: tuple[int, ...], index: int, segment: Segment) -> Any:
    """Counts of a segment of any size: a device counts in 32 bits what it draws in one call."""
    step, total = pieces(task.rows, task.elements), None
    for first in range(segment.first, segment.stop, step):
        piece = segment._replace(first=first, stop=min(first + step, segment.stop))
        counted = count_segment(task, lanes, index, piece)
        more = jax.tree.map(lambda leaf: np.asarray(leaf, np.int64), counted)
        total = more if total is None else jax.tree.map(np.add, total, more)
    return total


def unpacked(sent: Sent, made: Callable[[Any], Any] = same) -> Any:
    """What was sent, unpacked and kept.

    Args:
        sent: the value.
        made: what is made of it, once.
    """
    with _lock:
        if sent.digest not in _known:
            keep_compiled_programs(lambda _: None)
            _known[sent.digest] = made(unpack(sent))
            while len(_known) > KEPT:
                _known.popitem(last=False)
        _known.move_to_end(sent.digest)
        return _known[sent.digest]


# What a worker of a cluster does for black boxes: processes of its own draw for it.


PULSE = 0.5
"""Seconds between two looks at whether anybody still waits for what is drawn."""

IDLE = 60.0
"""Seconds after which processes that nobody asks are ended: their run may have ended anyhow."""

WORDS = 1 << 12
"""Answers of which one task tells what they stand for."""

ME = secrets.token_hex(8)
"""By which runs know this process: an address may be another's later."""


class Asked(NamedTuple):
    """What is drawn in one task."""

    run: str
    """Whose boxes share processes."""
    request: Request
    shape: Shape | None
    seconds: float | None
    """That the box has from when it is loaded; None for no limit."""
    needed: Needed


class Drawn(NamedTuple):
    """What came of it."""

    outputs: tuple[tuple[HostArray, Told], ...] = ()
    """As `Lent.draw` yields them."""
    ending: tuple[str, str] | None = None
    """Why there is no more: the kind of error and its words."""
    releases: int = 0
    """That the box was asked for."""
    place: str = ""
    """Which process says so."""


def draw_drawing(sent: Sent, asked: Asked) -> tuple[Any, ...]:
    """What became of a task, and which worker says so."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    return (*answer(sent, asked, lambda: _is_wanted(worker, key)), worker.address)


def answer(sent: Sent, asked: Asked, is_wanted: Any = lambda: True) -> Answer:
    """Draws for as long as it is wanted.

    Args:
        sent: mechanisms and data, as in a load.
        asked: what of them.
        is_wanted: whether anybody still waits for it.
    """
    try:
        return _drawing_answered(sent, asked, is_wanted)
    except Exception as error:  # of this machine: memory, a disk; another one may do better
        return "broken", error_message(error)


def _drawing_answered(sent: Sent, asked: Asked, is_wanted: Any) -> Answer:
    try:
        load = unpacked(sent, lambda content: Load(*content))
        interpreters = check(load.content[0], asked.needed)
    except Refused as refused:
        return "refused", str(refused)
    except Missing as missing:
        return "missing", str(missing)
    workers = _pool.take(asked.run, interpreters, is_wanted)
    before = workers.calls
    try:
        with workers.lend(load) as (lent, *_):
            outputs, ending = _all(lent, workers, asked)
    except SampleError as error:  # no process, or none that holds it: nothing was drawn
        outputs, ending = [], ("unlent", str(error))
    except Stopped:
        outputs, ending = [], ("stopped", "")
    finally:
        _pool.give_back(asked.run, workers)
    return "drawn", Drawn(tuple(outputs), ending, workers.calls - before, ME)


def _all(
    lent: Lent, workers: Workers, asked: Asked
) -> tuple[list[tuple[HostArray, Told]], tuple[str, str] | None]:
    until = None if asked.seconds is None else time.monotonic() + asked.seconds
    outputs: list[tuple[HostArray, Told]] = []
    try:
        drawing = lent.draw(asked.request, asked.shape, until)
        outputs.extend((found, _in_words(found, lent.told, workers)) for found in drawing)
    except (SampleError, Overdue) as error:
        return outputs, _ending(error)
    return outputs, None


def _ending(error: Exception) -> tuple[str, str]:
    kinds = (RaisedError, "raised"), (LostError, "lost"), (Overdue, "overdue")
    kind = next((name for cls, name in kinds if isinstance(error, cls)), "wrong")
    return kind, str(error)


def _in_words(outputs: HostArray, told: Told, workers: Workers) -> Told:
    """What was told, with the words of all codes: an answer that told them may be lost."""
    if not told.answering:
        return told
    codes = {int(code) for code in np.unique(outputs[:WORDS, :2])}
    known = {code: workers.words[code] for code in codes & workers.words.keys()}
    return told._replace(words={**known, **told.words})


def _is_wanted(worker: Any, key: Any) -> bool:
    """Whether somebody still waits for a task, as far as Dask's worker knows."""
    task = worker.state.tasks.get(key)
    gone = worker.status.name in ("closing", "closed", "closing_gracefully", "failed")
    return not gone and task is not None and task.state == "executing"


class _Pool:
    """Processes of boxes, by the run that they serve: one set for each task that goes on."""

    def __init__(self) -> None:
        self._idle: list[tuple[str, Workers, float]] = []
        self._busy: dict[Workers, Any] = {}
        self._lock = threading.Lock()
        self._watch: threading.Thread | None = None

    def take(self, run: str, interpreters: dict[str, str], is_wanted: Any) -> Workers:
        """Processes for one task: those that served the same run before, or others."""
        with self._lock:
            places = [at for at, (own, _, _) in enumerate(self._idle) if own == run]
            workers = self._idle.pop(places[-1])[1] if places else Workers(1)
            workers.interpreters = {**workers.interpreters, **interpreters}
            self._busy[workers] = is_wanted
            if self._watch is None:
                self._watch = threading.Thread(target=self._look, name="boxes", daemon=True)
                self._watch.start()
        return workers

    def give_back(self, run: str, workers: Workers) -> None:
        """The task has come to its end."""
        with self._lock:
            del self._busy[workers]
            if not workers.stopped:
                self._idle.append((run, workers, time.monotonic()))

    def end(self, run: str | None = None) -> None:
        """Ends what serves a run, or all."""
        with self._lock:
            ended = [one for own, one, _ in self._idle if run in (None, own)]
            self._idle = [each for each in self._idle if each[1] not in ended]
        for workers in ended:
            workers.stop()

    def _look(self) -> None:
        while True:
            time.sleep(PULSE)
            with self._lock:
                old = time.monotonic() - IDLE
                ended = [one for _, one, since in self._idle if since < old]
                self._idle = [each for each in self._idle if each[1] not in ended]
                ended += [one for one, is_wanted in self._busy.items() if not is_wanted()]
            for workers in ended:
                workers.stop()


_pool = _Pool()


def end(run: str) -> None:
    """Ends the processes that serve a run."""
    _pool.end(run)
