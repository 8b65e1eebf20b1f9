"""Count one part of a run on its own, and merge the parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from dpframe.commands.audit import make_plan, plugin_records, versions
from dpframe.commands.run import CHECKPOINT, Invocation, run as run_audit, select_device
from dpframe.common import files
from dpframe.errors import OutputError, SpecError
from dpframe.results.build import first_seed, spec_record
from dpframe.results.model import PluginRecord, Record, SpecRecord
from dpframe.results.strict_json import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.commands.audit import Display
    from dpframe.sampling.address import Shard
    from dpframe.spec.audit import Audit


NAME = "shard.json"
SCHEMA = 1


class ShardResult(NamedTuple):
    """The result of a shard."""

    directory: Path
    failed: dict[str, str]  # why cells could not be counted, by id


def count(
    loaded: Audit,
    shard: Shard,
    invocation: Invocation,
    display: Display,
    warn: Callable[[str], None] = print,
) -> ShardResult:
    """Count one shard of an audit without verdicts; an interrupted shard is continued.

    Raises OutputError if the directory cannot be written to, is in use, or holds another shard
    or run, DpframeError if there is no such device.
    """
    default = Path("runs") / loaded.name / f"shard-{shard.number}-of-{shard.of}"
    directory = files.made(invocation.out or default)
    select_device(invocation.device or loaded.run.device)
    from dpframe.engine.checkpoint import Store
    from dpframe.engine.resources import planned_draws
    from dpframe.engine.run import count as count_plan
    from dpframe.sampling.compile_cache import keep_compiled_programs
    from dpframe.workers.executor import source_of

    with files.locked(directory / CHECKPOINT):
        keep_compiled_programs(warn)
        about = _about(loaded, shard)
        _check_empty(directory, about)
        store = Store(directory / CHECKPOINT)
        if not invocation.resume:
            store.clear()
        _write(directory, {**about, "complete": False, "failed": {}})
        with source_of(loaded.cells, loaded.interpreters) as workers:
            plan = make_plan(loaded, workers)
            draws = planned_draws(plan) // shard.of
            with display(len(plan.audit.cells), draws) as progress:
                failed = count_plan(plan, shard, store, progress, workers)
        failed |= {cell.id: reason for cell, reason in plan.failed}
        if store.problem:
            raise OutputError(store.problem)
        _write(directory, {**about, "complete": True, "failed": failed})
    return ShardResult(directory, failed)


def merge(
    directories: Sequence[Path],
    out: Path,
    spec: Path | None,
    display: Display,
    load: Callable[[Path, list[str]], Audit],
    warn: Callable[[str], None] = print,
) -> Record:
    """Add shards up, in any order, and write the record that a single run would have written.

    `out` is the directory of the run; it must not hold counts of another run. `spec` is the path of
    the spec; default: its path when the shards were counted. Raises OutputError if a shard is
    missing or belongs to another run, SpecError if the spec is missing or has changed.
    """
    shards = [(directory, _read(directory)) for directory in directories]
    _check_one_run(shards)
    first = shards[0][1]
    of = first["shard"][1]
    from dpframe.engine.checkpoint import merge as merge_counts

    loaded = load(spec or Path(first["spec"]["path"]), first["spec"]["overrides"])
    if loaded.source.sha256 != first["spec"]["sha256"]:
        raise SpecError([f"{loaded.source.path}: not the spec that the shards were counted from"])
    _check_here(first, loaded)
    numbered = {about["shard"][0]: directory / CHECKPOINT for directory, about in shards}
    with files.locked(files.made(out) / CHECKPOINT):
        merge_counts(numbered, of, out / CHECKPOINT)
    return run_audit(loaded, Invocation(out=out), display, warn)


def _about(loaded: Audit, shard: Shard) -> dict[str, Any]:
    """Return the fields that all shards of a run share, and the number of this one."""
    return {
        "schema": SCHEMA,
        "shard": list(shard),
        "spec": spec_record(loaded.source).model_dump(),
        "seed": first_seed(loaded),
        **_code(loaded),
    }


def _code(loaded: Audit) -> dict[str, Any]:
    """Return the versions and plugins that may change counts; others may differ by machine."""
    found = versions()
    return {
        "versions": {name: found[name] for name in ("dpframe", "jax", "numpy", "scipy")},
        "plugins": [plugin.model_dump() for plugin in plugin_records(loaded)],
    }


def _write(directory: Path, content: dict[str, Any]) -> None:
    signed = {**content, "digest": digest_of(content)}
    try:
        files.replace(directory / NAME, json.dumps(signed, indent=1, ensure_ascii=False))
    except OSError as error:
        raise OutputError(f"{directory}: cannot write there: {error.strerror}") from error


def _read(directory: Path) -> dict[str, Any]:
    """Read the description of a shard; raise OutputError if it is missing or was altered."""
    damaged = OutputError(f"{directory / NAME}: was not written by a shard")
    try:
        found = json.loads(files.read_folder(directory / NAME))
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise damaged
        if found.pop("digest", None) != digest_of(found):
            raise OutputError(f"{directory / NAME}: was altered")
        _Form.model_validate(found)
    except OSError:
        raise OutputError(f"{directory}: has no shard; dpframe run --shard makes one") from None
    except (ValueError, RecursionError):
        raise damaged from None
    return found


class _Form(BaseModel):
    """The fields of a shard's description."""

    model_config = ConfigDict(strict=True)

    shard: Annotated[list[Annotated[int, Field(ge=1, le=10**6)]], Field(min_length=2, max_length=2)]
    spec: SpecRecord
    seed: int
    versions: dict[str, str]
    plugins: list[PluginRecord]
    complete: bool
    failed: dict[str, str]


def _check_empty(directory: Path, about: dict[str, Any]) -> None:
    """Refuse a directory of another run or shard, because counts of two runs must not mix."""
    if (directory / "record.json").exists():
        raise OutputError(
            f"{directory}: contains the record of a run; a shard needs its own directory"
        )
    if not (directory / NAME).exists():
        return
    other = _read(directory)
    for key in ("shard", "spec"):
        if other[key] != about[key]:
            raise OutputError(
                f"{directory}: contains shard {_named(other)} of another run or cut; choose "
                "another --out, or delete it"
            )


def _check_one_run(shards: Sequence[tuple[Path, dict[str, Any]]]) -> None:
    """Raise OutputError unless the shards are exactly the parts of one run."""
    if not shards:
        raise OutputError("no shard was given")
    first_directory, first = shards[0]
    seen: dict[int, Path] = {}
    for directory, about in shards:
        for key, what in _WHAT.items():
            mine, theirs = (
                {**one["spec"], "path": ""} if key == "spec" else one[key] for one in (about, first)
            )
            if mine != theirs:
                raise OutputError(
                    f"{directory} and {first_directory} differ in {what}"
                    f"{_difference(mine, theirs)}: they are not parts of one run"
                )
        number, of = about["shard"]
        if of != first["shard"][1]:
            raise OutputError(
                f"{directory} is shard {_named(about)}, {first_directory} is {_named(first)}: all "
                "shards of a run must be cut in the same way"
            )
        if number in seen:
            raise OutputError(f"{directory} and {seen[number]} are both shard {_named(about)}")
        seen[number] = directory
        if not about["complete"]:
            raise OutputError(
                f"{directory}: shard {_named(about)} is not complete; run it again to continue"
            )
    of = first["shard"][1]
    if missing := sorted(set(range(1, of + 1)) - seen.keys()):
        listed = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
        raise OutputError(f"of {of} shards {len(missing)} are missing: {listed}")


_WHAT = {
    "spec": "the spec or its overrides",
    "seed": "the seed",
    "versions": "versions",
    "plugins": "the code of plugins",
}


def _difference(mine: Any, theirs: Any) -> str:
    if isinstance(mine, dict) and mine.keys() == theirs.keys():
        names = [name for name in mine if mine[name] != theirs[name] and name != "text"]
        return f" ({', '.join(names)})" if names else ""
    if isinstance(mine, list):
        both = {json.dumps(one, sort_keys=True) for one in mine} ^ {
            json.dumps(one, sort_keys=True) for one in theirs
        }
        names = sorted({json.loads(one)["name"] for one in both if one.startswith("{")})
        return f" ({', '.join(names)})" if names else ""
    return ""


def _named(about: dict[str, Any]) -> str:
    return "/".join(map(str, about["shard"]))


def _check_here(about: dict[str, Any], loaded: Audit) -> None:
    """Raise OutputError if the counts come from code that differs from this machine's."""
    for key, found in _code(loaded).items():
        if found != about[key]:
            raise OutputError(
                f"the shards differ from this machine in {_WHAT[key]}"
                f"{_difference(found, about[key])}: counts of different code cannot be combined"
            )
