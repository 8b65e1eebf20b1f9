"""The worker of other interpreters: what it can be run by, what it answers, and how it fails."""

from __future__ import annotations

import ast
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiers import mostly_slow

from dpframe.draw import process
from dpframe.draw.pool import Workers
from dpframe.draw.requests import BlackBoxPayload, DeadlinePassed, Request, program_request
from dpframe.draw.streams import Asking, Stream, digest
from dpframe.draw.worker import codes, frames, module_sampler, plain_data, sampler
from dpframe.draw.worker.answers import Terms
from dpframe.draw.worker.encoding import encode
from dpframe.draw.worker.frames import Frame
from dpframe.draw.worker.mechanism_sampler import ArrayEncoder
from dpframe.draw.worker.module_sampler import Modules
from dpframe.draw.worker.plain_data import pack
from dpframe.draw.worker.sampler import Server
from dpframe.errors import SampleError
from dpframe.interfaces.attack import Answers
from dpframe.interfaces.mechanism import ForeignMechanism, ProgramFile

FOLDER = Path(sampler.__file__).parent
BOX = """
import os, random, sys, time

class Batches:  # releases n at a time
    def __init__(self, what, data):
        self.what, self.total, self.batches = what, sum(data), []

    def releases(self, n):
        self.batches.append(n)
        if self.what == "few": return [0] * (n - 1)
        if self.what == "one": return 3.0
        if self.what == "numbers":
            import numpy
            return numpy.random.random(n) + self.total
        if self.what == "raise": raise KeyError("rare")
        if self.what == "some": return [KeyError("one") if i % 4 == 1 else 1.0 for i in range(n)]
        return [(len(self.batches), random.random()) for _ in range(n)]

class Both(Batches):
    def __call__(self):
        return "one"

def prepare(params, data):
    what, calls = params["what"], []
    if what.startswith("batch "): return Batches(what[6:], data)
    if what.startswith("both "): return Both(what[5:], data)
    if what == "unready":
        raise ValueError("no noise for 0 records")
    if what == "none":
        return None

    def release():
        calls.append(1)
        if what == "constant": return 1.5
        if what == "noise": return sum(data) + random.random()
        if what == "count": return len(calls)
        if what == "raise": raise KeyError("record 17 of 20")
        if what == "anything": return [None, "a", {"b": 2}, (1.0, float("nan"))][len(calls) % 4]
        if what == "print": print("hello"); sys.stdout.flush(); return 1
        if what == "die": os._exit(3)
        if what == "late" and len(calls) > 8: raise KeyError("late")
        if what == "kinds": return {f"key {len(calls)}": 1}
        if what == "hang": time.sleep(60)
        if what == "write": os.write(4, b"nonsense" * 9); return 1
        if what == "fork": os.fork(); return 1
        if what == "change": data[0] += 1; return 1
        if what == "threads": return [os.environ[n + "_NUM_THREADS"] for n in ("OMP", "RAYON")]
        if what == "python": return [n for n in os.environ if n.startswith("PYTHON")]
        return sys.path

    return release

def query(params, data):
    return sum(data) / 3 if params["what"] != "raise" else 1 / 0
"""


class Program(ForeignMechanism, name="program-of-tests"):
    """A box with a parameter that says what it does."""

    module = ""
    file: str
    what: str = "constant"

    def program(self) -> ProgramFile:
        return ProgramFile(Path(self.file))

    def arguments(self) -> dict[str, Any]:
        return {"what": self.what}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("boxes") / "box.py"
    path.write_text(BOX, encoding="utf-8")
    return str(path)


def answering(take: Callable[[Any, Any], object]) -> Server:
    """A server in this process whose answers are packed, as through a pipe."""

    def write(frame: Frame) -> None:
        read_end, write_end = os.pipe()
        frames.write(write_end, frame)
        found = frames.read(read_end)
        assert found is not None
        os.close(read_end)
        os.close(write_end)
        header = {**found.header}
        if "words" in header:
            header["words"] = dict(header["words"])
        take(header, bytes(found.content))

    modules = Modules()
    return Server(modules.load, modules.describe, write)


def asked(what: str, box: str, rows: int = 8, chunks: int = 1, **how: Any) -> Any:
    """Answers that a server in this process gives to a run."""
    told: list[tuple[dict[str, Any], bytes]] = []
    server = answering(lambda *one: told.append(one))
    data = (np.zeros(3), np.ones(3))
    server.do(Frame(*program_request((Program(file=box, what=what),), data)))
    assert told.pop(0)[0]["reply"] == "loaded"
    wanted = {"width": None, "raises": True, "time": False, "one": False, **how}
    task = {"request": "draw", "variant": 0, "data": 1, "stream": [1, "a", 0, "eval"], "dataset": 1}
    place = {"first": 0, "stop": chunks, "rows": rows, "answers": wanted}
    server.do(Frame({**task, **place}))
    return told


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server in this process leaves nothing."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(module_sampler, "limit_memory", lambda more: None)
    states = random.getstate(), np.random.get_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])


SENT = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py"))
SENT.remove("mechanism_sampler.py")


@pytest.mark.parametrize("name", SENT)
def test_python_3_8_reads_all_of_it_and_nothing_has_to_be_installed(name: str) -> None:
    source = (FOLDER / name).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 8))
    typing_only = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CH" in ast.dump(n)]
    hidden = {id(inner) for one in typing_only for inner in ast.walk(one)}
    guarded = {
        id(inner)
        for n in ast.walk(tree)
        if isinstance(n, ast.Try) and "ImportError" in ast.dump(n)
        for inner in ast.walk(n)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in hidden | guarded:
            if getattr(node, "level", 0) == 1:  # a neighbour
                assert node.module != "mechanism_sampler"
                names = [node.module] if node.module else [alias.name for alias in node.names]
                beside = [(FOLDER / name).with_name(one) for one in names]
                assert all(one.is_dir() or one.with_suffix(".py").is_file() for one in beside)
                continue
            module = getattr(node, "module", None) or node.names[0].name
            assert module.partition(".")[0] in sys.stdlib_module_names, module
    # Syntax that only later versions have, and no parser notices.
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"removeprefix", "removesuffix", "bit_count"}, node.attr
        if isinstance(node, ast.Call):
            made = node.func.value if isinstance(node.func, ast.Subscript) else None
            assert getattr(made, "id", None) not in {"list", "dict", "set", "tuple"}
            words = {keyword.arg for keyword in node.keywords}
            assert not ({"strict"} & words and "zip" in ast.dump(node.func))
            assert not (
                isinstance(node.func, ast.Name)
                and node.func.id == "isinstance"
                and isinstance(node.args[1], ast.BinOp)
            )


def test_an_address_gives_the_seeds_of_other_workers() -> None:
    stream = Stream(3, "group", 1, "eval")
    place = bytes.fromhex(digest(list(stream), 32)) + (5).to_bytes(8, "little") + bytes([1])
    wanted = blake2b(place, digest_size=32, person=b"shared").digest()
    assert sampler.seeds(stream, 5, 1) == wanted


def test_answers_are_those_of_other_workers(box: str) -> None:
    (header, content), (done, _) = asked("anything", box, width=3)
    assert done == {"reply": "done"}
    found = Answers(np.frombuffer(content, "<u8").reshape(header["shape"]))
    values = ["a", {"b": 2}, (1.0, float("nan")), None] * 2
    encoder = ArrayEncoder(())
    encoder.terms = Terms(width=3)
    expected = encoder.chunk([encoder.held(value) for value in values])
    assert found.rows.tobytes() == expected.content
    kinds = {header["words"][int(kind)] for kind in found.kinds}
    assert kinds == {encoder.words[kind] for kind in found.kinds.tolist()}


def test_draws_depend_on_their_address_and_not_on_how_many_are_asked_for(box: str) -> None:
    (header, content), _ = asked("noise", box, rows=4, chunks=3)
    assert (header["chunks"], header["shape"], header["natives"]) == (3, [12, 4], [[]])
    assert asked("noise", box, rows=4, chunks=1)[0][1] == content[: 4 * 4 * 8]
    numbers = Answers(np.frombuffer(content, "<u8").reshape(12, 4)).numbers[:, 0]
    assert len({*numbers}) == 12
    assert all(3 <= number < 4 for number in numbers)


def test_state_is_built_once(box: str) -> None:
    (_, content), _ = asked("count", box, rows=4, chunks=2)
    assert [*Answers(np.frombuffer(content, "<u8").reshape(8, 4)).numbers[:, 0]] == [*range(1, 9)]


def test_an_exception_is_an_answer_or_a_fault(box: str) -> None:
    (header, content), _ = asked("raise", box)
    assert "raises KeyError at box.py:37" in header["words"].values()
    (messages, _), _ = asked("raise", box, messages=True)
    assert "raises KeyError at box.py:37: 'record # of #'" in messages["words"].values()
    assert Answers(np.frombuffer(content, "<u8").reshape(header["shape"])).raised.all()
    ((told, _),) = asked("raise", box, raises=False)
    assert told["error"] == "KeyError: 'record 17 of 20' (box.py:37)"
    (unready, _), _ = asked("unready", box)
    kind, trace = unready["words"].values()
    assert kind.startswith("raises ValueError at box.py:")
    assert trace.startswith("ValueError: no noise for ")
    ((told, _),) = asked("none", box)
    assert "prepare(params, data) returned NoneType" in told["why"]


def test_no_release_may_change_the_data_of_later_ones(box: str) -> None:
    ((told, _),) = asked("change", box)
    assert told["why"].startswith("a call changed its data")


def test_what_came_before_a_fault_is_handed_on(box: str) -> None:
    (header, _), (told, _) = asked("late", box, rows=4, chunks=3, raises=False)
    assert (header["chunks"], header["shape"][0]) == (2, 8)
    assert told["error"].startswith("KeyError: 'late' (box.py:")


def test_time_is_told_where_it_is_asked_for(box: str) -> None:
    (header, content), _ = asked("constant", box, time=True)
    assert (Answers(np.frombuffer(content, "<u8").reshape(header["shape"])).seconds > 0).all()
    (header, content), _ = asked("constant", box)
    assert not Answers(np.frombuffer(content, "<u8").reshape(header["shape"])).seconds.any()


@pytest.mark.parametrize("what", ["constant", "unready"])
def test_what_a_few_answers_took_is_told(
    box: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(sampler, "perf_counter", lambda: 0.0)
    ((header, _), _) = asked(what, box, rows=3, chunks=7)
    assert header["durations"] == [0.0, 0.0]  # nine answers each, and three that are too few
    ticks = itertools.count()
    monkeypatch.setattr(sampler, "perf_counter", lambda: 0.001 * next(ticks))
    ((header, _), _) = asked(what, box, rows=8, chunks=2)
    assert header["durations"] == pytest.approx([0.001 / 8, 0.001 / 8])


def test_a_query_is_asked_without_a_draw(box: str) -> None:
    told: list[Any] = []
    server = answering(lambda *one: told.append(one))
    for what in ("constant", "raise"):
        task = program_request((Program(file=box, what=what),), (np.zeros(3), np.ones(3)))
        server.do(Frame(*task))
        server.do(Frame({"request": "query", "data": 1}))
    numbers = {"form": "a number", "numbers": [1.0]}
    assert told[1][0] == {"reply": "queried", "raised": None, **numbers}
    assert told[3][0]["raised"] == "ZeroDivisionError: division by zero"


def test_what_cannot_be_used_is_said(box: str, tmp_path: Path) -> None:
    told: list[Any] = []
    server = answering(lambda header, _: told.append(header))
    load, data = program_request((Program(file=box),), (0, 1))
    server.do(Frame({**load, "digest": "0"}, data))
    assert "box.py has changed since the run began" in told.pop()["error"]
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n", encoding="utf-8")
    server.do(Frame(*program_request((Program(file=str(empty)),), (0, 1))))
    assert told.pop()["why"] == "empty.py has no function prepare(params, data)"
    absent = BlackBoxPayload((Program(file=str(tmp_path / "absent.py")),), (0, 1))
    with pytest.raises(SampleError, match="the program cannot be read"):
        absent.message()
    with pytest.raises(SampleError, match="a value of class object cannot be sent"):
        BlackBoxPayload((Program(file=box),), (object(), 1)).message()


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(2) as shared:
        yield shared


def drawn(workers: Workers, box: str, what: str, seconds: float = 30) -> Any:
    """Four answers of a process of its own, and what it says of them."""
    load = BlackBoxPayload((Program(file=box, what=what),), (np.zeros(3), np.ones(3)))
    stream = Stream(1, "a", 0, "eval")
    request = Request(0, 1, stream, 1, 0, 1, 4, Asking())
    with workers.lend(load) as (worker, *_):
        (drawn,) = worker.draw(request, time.monotonic() + seconds)
        assert drawn.durations == ()  # four are too few
        return Answers(drawn.outputs, drawn.words)


def test_a_process_answers_as_the_server_does(workers: Workers, box: str) -> None:
    found = drawn(workers, box, "noise")
    (_, content), _ = asked("noise", box, rows=4)
    assert found.rows.tobytes() == content
    assert [*drawn(workers, box, "constant").numbers[:, 0]] == [1.5] * 4
    assert drawn(workers, box, "print").words  # its output goes elsewhere
    threads = drawn(workers, box, "threads")
    assert (threads.values == threads.values[0]).all()
    assert threads.values[0] == codes.code(encode(["1", "1"])[1])
    assert drawn(workers, box, "python").values[0] == codes.code(encode([])[1])
    drawn(workers, box, "fork")


@pytest.mark.parametrize(
    ("what", "why"),
    mostly_slow([("die", "exit code 3"), ("write", "wrote between its answers")], (0,)),
)
def test_a_fault_ends_its_process_and_no_other(
    what: str, why: str, workers: Workers, box: str
) -> None:
    with pytest.raises(SampleError, match=why):
        drawn(workers, box, what)
    assert [*drawn(workers, box, "constant").numbers[:, 0]] == [1.5] * 4


def test_what_hangs_is_ended_by_the_deadline(workers: Workers, box: str) -> None:
    with pytest.raises(DeadlinePassed):
        drawn(workers, box, "hang", seconds=0.5)


def test_a_missing_package_is_said_with_its_line(workers: Workers, tmp_path: Path) -> None:
    program = tmp_path / "needy.py"
    program.write_text("import no_such_package\n\ndef prepare(p, d): pass\n", encoding="utf-8")
    with pytest.raises(SampleError, match=r"No module named 'no_such_package' \(needy.py:1\)"):
        drawn(workers, str(program), "")


def test_there_has_to_be_such_an_interpreter(box: str) -> None:
    with Workers(2, {"gone": "/bin/absent"}) as few:
        for name, why in (
            ("gone", "no worker process can be started"),
            ("x", "no environment 'x'"),
        ):
            load = BlackBoxPayload((Program(file=box, environment=name),), (0, 1))
            with pytest.raises(SampleError, match=why), few.lend(load):
                pass


def test_data_come_back_as_they_were_or_as_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [
        np.arange(6.0).reshape(2, 3),
        np.array(["ab", "c"]),
        np.array([True]),
        np.float32(2.5),
    ]
    values += [
        np.array([1, None, "x"], object),
        np.array(3),
        np.array([1], ">i4"),
        np.zeros((0, 3)),
    ]
    for value in values:
        found = plain_data.unpack(pack(value))
        assert type(found) is type(value)
        assert found.dtype == value.dtype.newbyteorder("<")
        np.testing.assert_array_equal(found, value)
    single = [None, True, 1, -(10**30), 1.5, 1j, "a\ud800", b"x", (1, [2, {3}]), {"a": 1, 2: None}]
    assert [plain_data.unpack(pack(value)) for value in single] == single
    assert [type(plain_data.unpack(pack(value))) for value in (True, 1, 1.0)] == [bool, int, float]
    with pytest.raises(plain_data.PackingError, match="masked array"):
        pack([np.ma.array([1.0, 2.0], mask=[0, 1])])
    with pytest.raises(plain_data.PackingError, match="a value of class Random"):
        pack({"a": [random.Random(0)]})
    monkeypatch.setitem(sys.modules, "numpy", None)  # as where it is not installed
    assert plain_data.unpack(pack(values[0])) == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert plain_data.unpack(pack(values[1])) == ["ab", "c"]
    assert plain_data.unpack(pack(values[3])) == 2.5
    assert plain_data.unpack(pack(values[4])) == [1, None, "x"]
    assert plain_data.unpack(pack(values[7])) == []


# Batches.


def answers_of(told: list[tuple[dict[str, Any], bytes]]) -> Answers:
    (outputs, content), (done, _) = told
    assert (outputs["reply"], done["reply"]) == ("outputs", "done")
    return Answers(np.frombuffer(content, outputs["dtype"]).reshape(outputs["shape"]))


def test_a_program_may_release_in_batches(box: str) -> None:
    found = answers_of(asked("batch pairs", box, rows=16, chunks=2))
    assert found.numbers[:, 0].tolist() == [1.0] * 16 + [2.0] * 16  # one call for each chunk
    assert len(set(found.numbers[:, 1].tolist())) == 32
    plain = answers_of(asked("batch numbers", box, rows=16))
    assert plain.kinds.tolist() == answers_of(asked("constant", box, rows=16)).kinds.tolist()


def test_a_batch_that_raises_is_no_answer_but_an_item_of_one_is(box: str) -> None:
    """It is not known which of its releases raised: single ones are asked for then."""
    told = asked("batch raise", box)
    assert (told[-1][0]["reply"], "KeyError" in str(told[-1][0])) == ("raised", True)
    assert answers_of(asked("batch raise", box, one=True)).raised.all()
    some = answers_of(asked("batch some", box))
    assert some.raised.tolist() == [False, True, False, False] * 2


def test_time_and_single_calls_are_of_one_release(box: str) -> None:
    found = answers_of(asked("batch pairs", box, rows=4, time=True))
    assert found.numbers[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
    own = answers_of(asked("both pairs", box, rows=4, time=True))
    assert len(set(own.kinds.tolist())) == 1
    assert own.kinds[0] != found.kinds[0]  # its own function for one release, which says "one"


@pytest.mark.parametrize(
    ("what", "says"),
    [("batch few", "(8) gave 7 answers"), ("batch one", "(8) gave float; 8 answers")],
)
def test_a_batch_of_another_size_is_refused(what: str, says: str, box: str) -> None:
    told = asked(what, box)
    assert says in str(told[-1][0])
    assert told[-1][0]["reply"] == "refused"


def test_programs_of_two_searches_do_not_end_each_others_processes(
    box: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process runs one module: with two at work, each would be imported again for every round."""
    other = tmp_path / "other.py"
    other.write_text(BOX + "\n# another one\n", encoding="utf-8")
    started, start = [], process.WorkerProcess.__init__
    monkeypatch.setattr(
        process.WorkerProcess,
        "__init__",
        lambda self, *given: (started.append(self), start(self, *given))[1],
    )
    loads = [
        BlackBoxPayload((Program(file=str(f)),), (np.zeros(3), np.ones(3))) for f in (box, other)
    ]
    with Workers(2) as pool:
        for _ in range(4):
            for load in loads:
                with pool.lend(load) as (worker,):
                    assert worker.process.holds == load.number
        assert len(started) == 2
