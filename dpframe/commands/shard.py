"""Count one part of a run on its own, and merge the parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

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
    from dpframe.draw.streams import Shard
    from dpframe.spec.audit import Audit


SHARD_FILE = "shard.json"


class ShardResult(NamedTuple):
    """The result of a shard."""

    directory: Path
    failed: dict[str, str]  # why cells could not be counted, by id


class ShardFile(BaseModel):
    """The description of a shard, in its directory."""

    model_config = ConfigDict(strict=True, extra="forbid")

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    shard: Annotated[list[Annotated[int, Field(ge=1, le=10**6)]], Field(min_length=2, max_length=2)]
    """Its number, and the number of all shards."""
    spec: SpecRecord
    seed: int
    versions: dict[str, str]
    """Versions that may change counts; others may differ by machine."""
    plugins: list[PluginRecord]
    complete: bool = False
    failed: dict[str, str] = {}
    """Why cells could not be counted, by id."""

    @property
    def name(self) -> str:
        return "/".join(map(str, self.shard))

    def origin(self) -> dict[str, Any]:
        """Return what must be equal in all shards of a run, in words."""
        fields = self.model_dump(include={"spec", "seed", "versions", "plugins"})
        return {
            "the spec or its overrides": {**fields["spec"], "path": ""},
            "the seed": self.seed,
            "versions": self.versions,
            "the code of plugins": fields["plugins"],
        }


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
    from dpframe.count.checkpoint import Store
    from dpframe.draw.compile_cache import keep_compiled_programs
    from dpframe.draw.local_executor import source_of
    from dpframe.engine.resources import planned_draws
    from dpframe.engine.run import count as count_plan

    with files.locked(directory / CHECKPOINT):
        keep_compiled_programs(warn)
        about = _described(loaded, shard)
        _check_empty(directory, about)
        store = Store(directory / CHECKPOINT)
        if not invocation.resume:
            store.clear()
        _write(directory, about)
        with source_of(loaded.cells, loaded.interpreters) as workers:
            plan = make_plan(loaded, workers)
            draws = planned_draws(plan) // shard.of
            with display(len(plan.audit.cells), draws) as progress:
                failed = count_plan(plan, shard, store, progress, workers)
        failed |= {cell.id: reason for cell, reason in plan.failed}
        if store.problem:
            raise OutputError(store.problem)
        _write(directory, about.model_copy(update={"complete": True, "failed": failed}))
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
    of = _check_one_run(shards)
    first = shards[0][1]
    from dpframe.count.checkpoint import merge as merge_counts
    from dpframe.draw.streams import Shard

    loaded = load(spec or Path(first.spec.path), first.spec.overrides)
    if loaded.source.sha256 != first.spec.sha256:
        raise SpecError([f"{loaded.source.path}: not the spec that the shards were counted from"])
    local_origin = _described(loaded, Shard(1, of)).origin()
    if odd := _difference(local_origin, {**first.origin(), "the seed": local_origin["the seed"]}):
        raise OutputError(
            f"the shards differ from this machine in {odd}: counts of different code cannot be "
            "combined"
        )
    numbered = {about.shard[0]: directory / CHECKPOINT for directory, about in shards}
    with files.locked(files.made(out) / CHECKPOINT):
        merge_counts(numbered, of, out / CHECKPOINT)
    return run_audit(loaded, Invocation(out=out), display, warn)


def _described(loaded: Audit, shard: Shard) -> ShardFile:
    installed = versions()
    return ShardFile(
        shard=list(shard),
        spec=spec_record(loaded.source),
        seed=first_seed(loaded),
        versions={name: installed[name] for name in ("dpframe", "jax", "numpy", "scipy")},
        plugins=plugin_records(loaded),
    )


def _write(directory: Path, about: ShardFile) -> None:
    content = about.model_dump(mode="json", by_alias=True)
    signed = {**content, "digest": digest_of(content)}
    try:
        files.replace(directory / SHARD_FILE, json.dumps(signed, indent=1, ensure_ascii=False))
    except OSError as error:
        raise OutputError(f"{directory}: cannot write there: {error.strerror}") from error


def _read(directory: Path) -> ShardFile:
    """Read the description of a shard; raise OutputError if it is missing or was altered."""
    try:
        content = json.loads(files.read_folder(directory / SHARD_FILE))
        if not isinstance(content, dict):
            raise ValueError
        if content.pop("digest", None) != digest_of(content):
            raise OutputError(f"{directory / SHARD_FILE}: was altered")
        return ShardFile.model_validate(content)
    except OSError:
        raise OutputError(f"{directory}: has no shard; dpframe run --shard makes one") from None
    except (ValueError, RecursionError):
        raise OutputError(f"{directory / SHARD_FILE}: was not written by a shard") from None


def _check_empty(directory: Path, about: ShardFile) -> None:
    """Refuse a directory of another run or shard, because counts of two runs must not mix."""
    if (directory / "record.json").exists():
        raise OutputError(
            f"{directory}: contains the record of a run; a shard needs its own directory"
        )
    if (directory / SHARD_FILE).exists():
        other = _read(directory)
        if (other.shard, other.spec) != (about.shard, about.spec):
            raise OutputError(
                f"{directory}: contains shard {other.name} of another run or cut; choose "
                "another --out, or delete it"
            )


def _check_one_run(shards: Sequence[tuple[Path, ShardFile]]) -> int:
    """Return the number of shards; raise OutputError unless they are the parts of one run."""
    if not shards:
        raise OutputError("no shard was given")
    first_directory, first = shards[0]
    seen: dict[int, Path] = {}
    number, of = first.shard
    for directory, about in shards:
        if odd := _difference(about.origin(), first.origin()):
            raise OutputError(
                f"{directory} and {first_directory} differ in {odd}: they are not parts of one run"
            )
        number = about.shard[0]
        if about.shard[1] != of:
            raise OutputError(
                f"{directory} is shard {about.name}, {first_directory} is {first.name}: all "
                "shards of a run must be cut in the same way"
            )
        if number in seen:
            raise OutputError(f"{directory} and {seen[number]} are both shard {about.name}")
        seen[number] = directory
        if not about.complete:
            raise OutputError(
                f"{directory}: shard {about.name} is not complete; run it again to continue"
            )
    if missing := sorted(set(range(1, of + 1)) - seen.keys()):
        listed = ", ".join(map(str, missing[:10])) + (" …" if len(missing) > 10 else "")
        raise OutputError(f"of {of} shards {len(missing)} are missing: {listed}")
    return of


def _difference(mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    """Return the first difference between the origins of two shards; "" if there is none."""
    for what, one in mine.items():
        if one == (other := theirs[what]):
            continue
        names: list[str] = []
        if isinstance(one, dict):
            names = [name for name in one if one[name] != other.get(name) and name != "text"]
        elif isinstance(one, list):
            names = sorted(
                {
                    plugin["name"]
                    for plugin in (*one, *other)
                    if one.count(plugin) != other.count(plugin)
                }
            )
        return f"{what} ({', '.join(names)})" if names else what
    return ""
