"""Read a registry: the libraries, their versions, and the adapters that audit them."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from dpframe import DpframeError, __version__

LATEST = "latest"
"""Stands for the newest version that can be installed."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=80)]
"""A name that is also a valid file name."""

Address = Annotated[str, StringConstraints(pattern=r"^https?://[^\s\x00-\x1f\x7f]+$")]
Title = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f\uFFFE\uFFFF]+$")]
"""Text on one line that XML can contain."""

Inside = Annotated[str, StringConstraints(pattern=r"^[^/\\:.][^/\\:]*(/[^/\\:.][^/\\:]*)*$")]
"""The path of a file in the folder of the registry or below it."""


RESERVED_NAMES = ("index.html", "feed.xml", "records")
"""Names that the site uses itself."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Adapter(_Table):
    """An audit that fits every version of a library: a spec, or a module with a claim."""

    spec: Inside | None = None
    plugins: list[Inside] = []
    """Python files that the spec needs, as `dpframe run --plugin` takes them."""
    module: Inside | None = None
    """A module with `prepare(params, data)`, instead of a spec."""
    epsilon: Annotated[float, Field(ge=0)] | None = None
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    params: dict[str, Any] = {}
    """Arguments of `prepare`."""
    pair: dict[str, Any] | None = None
    search: dict[str, Any] | None = None
    trials: Annotated[int, Field(gt=0)] = 20_000
    files: list[Inside] = []
    """Other files that the spec or the module reads or imports."""
    seconds: Annotated[float, Field(gt=0)] = 3600.0
    """Time limit of one audit."""
    reports: dict[Name, Address] = {}
    """Public reports of violations, by version."""

    def problem(self) -> str | None:
        """Return a message if a key is missing or superfluous, else None."""
        if (self.spec is None) == (self.module is None):
            return "needs either `spec` or `module`"
        own = self.model_fields_set & {"epsilon", "delta", "params", "pair", "search", "trials"}
        if self.spec is not None and own:
            return f"`{min(own)}` applies only with `module`; here the spec sets it"
        if self.module is not None and self.epsilon is None:
            return "`module` needs `epsilon`, the claim"
        if self.module is not None and (self.pair is None) == (self.search is None):
            return "`module` needs either `pair` or `search`"
        return None

    @property
    def sources(self) -> list[str]:
        """Files that affect the outcome, besides the spec of a module."""
        own = [self.spec] if self.spec is not None else [str(self.module)]
        return list(dict.fromkeys([*own, *self.plugins, *self.files]))


class Library(_Table):
    """A library with the versions that are watched."""

    versions: Annotated[list[Name], Field(min_length=1)]
    requirements: list[str] | None = None
    """Templates in which {version} stands for the version; default: the library alone."""
    python: str | None = None
    adapters: Annotated[dict[Name, Adapter], Field(min_length=1)]


class _Registry(_Table):
    schema_version: Annotated[Literal[1], Field(alias="schema")]
    title: Title = "Versions of libraries"
    url: Address | None = None
    """Address of the site, for its feed."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.999
    """Confidence of each record."""
    libraries: Annotated[dict[Name, Library], Field(min_length=1)]


class AuditTask(NamedTuple):
    """An adapter of a library at a version."""

    library: str
    version: str
    adapter: str

    @property
    def place(self) -> str:
        """Its key in the state."""
        return "/".join(self)


class LibraryRegistry:
    """A registry and the folder that its paths start from.

    Args:
        path: a TOML file.

    Raises:
        DpframeError: it cannot be read, or a table in it is wrong.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, path.resolve().parent
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            self.content = _Registry.model_validate(data)
        except OSError as error:
            raise DpframeError(f"{path}: {(error.strerror or str(error)).lower()}") from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise DpframeError(
                f"{path}: {place}: {first['msg'][:1].lower()}{first['msg'][1:]}"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DpframeError(f"{path}: {error}") from None
        if (problem := self._collision()) is not None:
            raise DpframeError(f"{path}: {problem}")
        for name, library in self.content.libraries.items():
            for label, adapter in library.adapters.items():
                problem = adapter.problem()
                lost = [one for one in adapter.sources if not (self.folder / one).is_file()]
                if problem or lost:
                    problem = problem or f"there is no file {lost[0]}"
                    raise DpframeError(f"{path}: libraries.{name}.adapters.{label}: {problem}")

    def _collision(self) -> str | None:
        """Return a message if two names would be one file of the site, on any system."""
        known = dict.fromkeys(
            RESERVED_NAMES, "the site has a page, a feed or a folder of this name"
        )
        for name, library in self.content.libraries.items():
            adapters = dict[str, str]()
            if problem := known.get(name.lower()):
                return f"libraries.{name}: {problem}; rename it, and set its `requirements`"
            known[name.lower()] = f"differs from {name} in upper and lower case alone"
            for label in library.adapters:
                if other := adapters.get(label.lower()):
                    difference = f"differs from {other} in upper and lower case alone; rename it"
                    return f"libraries.{name}.adapters.{label}: {difference}"
                adapters[label.lower()] = label
        return None

    def tasks(self, library: str, version: str) -> Iterator[AuditTask]:
        """List the audits of a version, in the order of the file."""
        for name in self.content.libraries[library].adapters:
            yield AuditTask(library, version, name)

    def adapter(self, task: AuditTask) -> Adapter | None:
        """Return the adapter of a task; None if the registry no longer has it."""
        library = self.content.libraries.get(task.library)
        return library.adapters.get(task.adapter) if library else None

    def environment(self, library: str, version: str) -> dict[str, Any]:
        """Return the table of an environment as a spec has it."""
        table = self.content.libraries[library]
        given = table.requirements or [f"{library}=={{version}}"]
        if version == LATEST:
            listed = [one.partition("==")[0] if "{version}" in one else one for one in given]
        else:
            listed = [one.replace("{version}", version) for one in given]
        return {"requirements": listed} | ({"python": table.python} if table.python else {})

    def question(self, task: AuditTask) -> str:
        """Hash everything that affects the outcome of a task, except its environment."""
        adapter = self.content.libraries[task.library].adapters[task.adapter]
        settings = adapter.model_dump(mode="json", exclude={"seconds", "reports"})
        files = {one: _digest((self.folder / one).read_bytes()) for one in adapter.sources}
        whole = [task.library, task.adapter, settings, files, self.content.confidence]
        return _digest(json.dumps([*whole, __version__], sort_keys=True).encode())

    def spec(self, task: AuditTask) -> str:
        """Write the spec of an adapter that is a module, as TOML."""
        adapter = self.content.libraries[task.library].adapters[task.adapter]
        given = {"module": adapter.module, "params": adapter.params, "epsilon": adapter.epsilon}
        mechanism = {"use": "program", "label": task.adapter}
        params = given | ({"delta": adapter.delta} if adapter.delta else {})
        where = {"pair": adapter.pair} if adapter.pair is not None else {"search": adapter.search}
        fixed = {"attack": [{"use": "identity"}], "estimator": [{"use": "order-statistics"}]}
        tables = {
            "schema": 1,
            "audit": {"name": task.adapter, "trials": adapter.trials, "delta": adapter.delta},
            **where,
            "mechanism": [mechanism | {"params": params}],
            **(fixed if adapter.pair is not None else {}),
        }
        return "".join(f"{key} = {toml(value)}\n" for key, value in tables.items())


def toml(value: Any) -> str:
    """Write a value as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(str(key))} = {toml(v)}" for key, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    # TOML writes inf, nan and exponents as Python does, and demands an escape for DEL.
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]
