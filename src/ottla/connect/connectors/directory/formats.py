"""The formats of a directory's files."""

from __future__ import annotations

import enum


class Format(enum.StrEnum):
    """A file's format; the value is what configurations say, and the end of written files' names."""

    LINES = "lines"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"

    @property
    def suffix(self) -> str:
        """The end of the names of files in this format."""
        return "txt" if self is Format.LINES else self.value


class BadFile(ValueError):
    """A file that is not in its format; the message names the file, the place and the problem."""
