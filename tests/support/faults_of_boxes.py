"""Faults of black boxes: each a function of the arguments of `sample`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpframe import HostMechanism, PureDP

FINE, FAILED = "fine", "failed"


class Fault(NamedTuple):
    """The fault of a box, before or instead of its answer."""

    outcome: str
    says: str
    """Part of the reason; a regular expression."""
    act: Callable[[Any, Any, int], Any]
    """Called as `sample` is; what it returns is returned if it is not None."""


FAULTS: dict[str, Fault] = {}


def fault(outcome: str, says: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function among the faults, under its name."""

    def keep(act: Callable[..., Any]) -> Callable[..., Any]:
        FAULTS[act.__name__.replace("_", " ")] = Fault(outcome, says, act)
        return act

    return keep


class Faulty(HostMechanism):
    """Uniform noise, and a fault."""

    fault: ClassVar[str]
    later: bool = False
    """Not at the first call of a process, but at its second."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(20.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        if not self.later or n > 2:
            found = FAULTS[self.fault].act(rng, data, n)
            if found is not None:
                return found
        return data + rng.random((n, 1))


class Odd(BaseException):
    """Not an Exception."""


class MuteError(ValueError):
    """An exception whose message cannot be had."""

    def __str__(self) -> str:
        raise LookupError("lost")


# Exceptions.


@fault(FAILED, r"sample raised ZeroDivisionError: division by zero \(.*faults_of_boxes\.py:\d+\)")
def raises(rng: Any, data: Any, n: int) -> Any:
    return 1 / 0


@fault(FAILED, "sample raised SystemExit: 0")
def exits(rng: Any, data: Any, n: int) -> Any:
    sys.exit(0)


@fault(FAILED, "sample raised KeyboardInterrupt")
def raises_keyboard_interrupt(rng: Any, data: Any, n: int) -> Any:
    raise KeyboardInterrupt


@fault(FAILED, "sample raised Odd: no more")
def raises_no_exception(rng: Any, data: Any, n: int) -> Any:
    raise Odd("no more")


@fault(FAILED, "sample raised GeneratorExit")
def raises_generator_exit(rng: Any, data: Any, n: int) -> Any:
    raise GeneratorExit


@fault(FAILED, "StopIteration")
def raises_stop_iteration(rng: Any, data: Any, n: int) -> Any:
    next(iter(()))


@fault(FAILED, "sample raised MuteError: its message raised LookupError")
def raises_what_cannot_be_said(rng: Any, data: Any, n: int) -> Any:
    raise MuteError


@fault(FAILED, "sample raised RecursionError")
def recurses(rng: Any, data: Any, n: int) -> Any:
    return recurses(rng, data, n)


@fault(FAILED, "sample raised (MemoryError|_ArrayMemoryError|numpy)")
def wants_too_much_memory(rng: Any, data: Any, n: int) -> Any:
    return np.ones((n, 1 << 42))


# Ends of the process.


@fault(FAILED, "a worker process ended with exit code 0 while it sampled")
def ends_well(rng: Any, data: Any, n: int) -> Any:
    os._exit(0)


@fault(FAILED, "a worker process ended with exit code 1 while it sampled")
def ends_badly(rng: Any, data: Any, n: int) -> Any:
    os._exit(1)


@fault(FAILED, "a worker process was ended by SIGSEGV while it sampled")
def crashes(rng: Any, data: Any, n: int) -> Any:
    ctypes.string_at(0)


@fault(FAILED, "a worker process was ended by SIGABRT while it sampled")
def aborts(rng: Any, data: Any, n: int) -> Any:
    os.abort()


@fault(FAILED, "a worker process was ended by SIGTERM while it sampled")
def terminates_itself(rng: Any, data: Any, n: int) -> Any:
    os.kill(os.getpid(), signal.SIGTERM)


@fault(FAILED, "a worker process ended with exit code 3 while it sampled")
def becomes_another_program(rng: Any, data: Any, n: int) -> Any:
    os.execv("/bin/sh", ["sh", "-c", "exit 3"])


# Calls that do not return.

TIME = r"^the first call of sample did not return within|^the time budget of .* ended before"


@fault(FAILED, TIME)
def hangs(rng: Any, data: Any, n: int) -> Any:
    while True:
        pass


@fault(FAILED, TIME)
def hangs_and_holds_the_interpreter(rng: Any, data: Any, n: int) -> Any:
    ctypes.PyDLL(None).pause()


@fault(FAILED, TIME)
def hangs_and_ignores_signals(rng: Any, data: Any, n: int) -> Any:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1000)


@fault(FAILED, TIME)
def stops_itself(rng: Any, data: Any, n: int) -> Any:
    os.kill(os.getpid(), signal.SIGSTOP)


NO_ANSWER = [name for name, found in FAULTS.items() if found.says == TIME]

# Damage to descriptors.


@fault(FINE)
def prints(rng: Any, data: Any, n: int) -> Any:
    print("to standard output")  # noqa: T201
    sys.stderr.write("to standard error")
    os.write(1, b"\0\xff" * 8)


@fault(FINE)
def reads_standard_input(rng: Any, data: Any, n: int) -> Any:
    assert sys.stdin.read() == ""


@fault(FINE)
def closes_the_standard_ones(rng: Any, data: Any, n: int) -> Any:
    for number in range(3):
        with contextlib.suppress(OSError):
            os.close(number)


@fault(FAILED, "a worker process .* while it sampled")
def closes_all(rng: Any, data: Any, n: int) -> Any:
    os.closerange(0, 256)


@fault(FAILED, "a worker process .* while it sampled")
def writes_into_every_pipe(rng: Any, data: Any, n: int) -> Any:
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(number, b"{}" * 50)


# Leftovers.


@fault(FINE)
def leaves_a_child(rng: Any, data: Any, n: int) -> Any:
    if os.fork() == 0:
        while True:
            time.sleep(1000)


@fault(FINE)
def leaves_a_program(rng: Any, data: Any, n: int) -> Any:
    """In a session of its own, so that it is in nobody's process group."""
    subprocess.Popen(["sleep", "1234"], start_new_session=True)


@fault(FINE)
def comes_back_twice(rng: Any, data: Any, n: int) -> Any:
    os.fork()


@fault(FINE)
def leaves_a_thread(rng: Any, data: Any, n: int) -> Any:
    threading.Thread(target=time.sleep, args=(1000,)).start()


@fault(FINE)
def changes_the_directory(rng: Any, data: Any, n: int) -> Any:
    os.chdir("/")


@fault(FINE)
def changes_signal_handlers(rng: Any, data: Any, n: int) -> Any:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@fault(FINE)
def limits_its_process(rng: Any, data: Any, n: int) -> Any:
    resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
    sys.setrecursionlimit(2000)


@fault(FINE)
def takes_standard_output_away(rng: Any, data: Any, n: int) -> Any:
    sys.stdout = sys.stderr = None  # type: ignore[assignment]


@fault(FINE)
def turns_the_clock(rng: Any, data: Any, n: int) -> Any:
    time.monotonic = lambda: 0.0


@fault(FINE)
def seeds_the_global_generators(rng: Any, data: Any, n: int) -> Any:
    np.random.seed(0)
    random.seed(0)


# Changes of the input.


@fault(FAILED, "sample raised ValueError: .*read-only")
def changes_its_input(rng: Any, data: Any, n: int) -> Any:
    data += 1


@fault(FAILED, "sample changed the dataset")
def changes_its_input_by_force(rng: Any, data: Any, n: int) -> Any:
    ctypes.memset(data.ctypes.data, 1, data.nbytes)


# Return values.


@fault(FAILED, "sample returned generator, not an array")
def returns_a_generator(rng: Any, data: Any, n: int) -> Any:
    return (rng.random() for _ in range(n))


class Lazy:
    """An array, when it is asked; it breaks then."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise OSError("the file is gone")


@fault(FAILED, "sample returned Lazy, which may contain more than numbers")
def returns_a_lazy_object(rng: Any, data: Any, n: int) -> Any:
    return Lazy()


@fault(FAILED, "sample returned dict, not an array")
def returns_a_dictionary(rng: Any, data: Any, n: int) -> Any:
    return {}


@fault(FAILED, "sample gave .* values; outputs are numbers")
def returns_texts(rng: Any, data: Any, n: int) -> Any:
    return np.array(["x"] * n)


@fault(FAILED, "sample gave object values; outputs are numbers")
def returns_objects(rng: Any, data: Any, n: int) -> Any:
    return np.array([None] * n)


@fault(FAILED, "the first axis must be n")
def returns_one_row_less(rng: Any, data: Any, n: int) -> Any:
    return rng.random((n - 1, 1))


@fault(FINE)
def returns_a_ragged_list(rng: Any, data: Any, n: int) -> Any:
    return [[1.0], [1.0, 2.0], *([1.0] for _ in range(n - 2))]


@fault(FAILED, "gave 0 answers")
def returns_nothing_at_all(rng: Any, data: Any, n: int) -> Any:
    return []


@fault(FAILED, "sample returned NaN")
def returns_nan(rng: Any, data: Any, n: int) -> Any:
    return np.full((n, 1), np.nan)


@fault(FAILED, "more than")
def returns_far_too_much(rng: Any, data: Any, n: int) -> Any:
    return np.broadcast_to(0.0, (n, 1 << 36))


LATER = (
    "raises",
    "ends badly",
    "hangs",
    "writes into every pipe",
    "returns one row less",
    "returns nan",
    "returns far too much",
)
"""Also tried where the first calls were in order."""


@fault(FAILED, r"sample gave shape \(\d+, 2\), not .* as before")
def changes_its_shape(rng: Any, data: Any, n: int) -> Any:
    return rng.random((n, 1 if n == 2 else 2))


@fault(FAILED, "sample gave float32, and float64 before")
def changes_its_type(rng: Any, data: Any, n: int) -> Any:
    return rng.random((n, 1), np.float64 if n == 2 else np.float32)


def _box(number: int, name: str) -> type[Faulty]:
    """A class of its own for each fault: boxes of one class share their processes."""
    body = {"__doc__": name, "__module__": __name__, "__annotations__": {}, "fault": name}
    box = type(f"Faulty{number}", (Faulty,), body, name=f"faulty-{number}")
    globals()[box.__name__] = box
    return box


FAULTY = {name: _box(number, name) for number, name in enumerate(FAULTS)}
