"""Files that a spec names: relative to the spec, wherever the program runs."""

from __future__ import annotations

import contextlib
import contextvars
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import core_schema

from dpframe.files import NotReadableError, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER: contextvars.ContextVar[Path] = contextvars.ContextVar("folder", default=Path())


@contextlib.contextmanager
def beside(folder: Path) -> Iterator[None]:
    """While it lasts, files that parameters name are relative to a folder.

    Args:
        folder: of the spec that is read.
    """
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


class SpecFile(str):
    """The type of a parameter that names a file, relative to the spec that gives it.

    It is the text as it was written, so that this is what a record holds; `path` is where the file
    lies. Without a spec, as in a notebook, that is relative to the working directory.
    """

    __slots__ = ("folder",)

    folder: Path

    def __new__(cls, written: str, folder: Path | None = None) -> SpecFile:
        made = super().__new__(cls, written)
        made.folder = _FOLDER.get() if folder is None else folder
        return made

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self.folder / self

    def read(self, most: int) -> bytes:
        """Its content.

        Args:
            most: bytes that it may have.

        Raises:
            ValueError: it is missing, cannot be read or is too large; the message is for the user.
        """
        try:
            return read_regular(self.path, most)
        except FileNotFoundError:
            where = "" if self.path.is_absolute() else f" in {self.folder.absolute()}"
            raise ValueError(
                f"{self}: no such file{where}; paths are relative to the spec"
            ) from None
        except IsADirectoryError:
            raise ValueError(f"{self}: is a directory") from None
        except NotReadableError as error:
            raise ValueError(f"{self}: {error}") from None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SpecFile):
            return str.__eq__(self, other) and self.folder == other.folder
        return str.__eq__(self, other) if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:  # str has one of its own
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> Any:
        return SpecFile, (str(self), self.folder)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.str_schema(min_length=1),
            serialization=core_schema.plain_serializer_function_ser_schema(
                str, return_schema=core_schema.str_schema()
            ),
        )
