"""What PRINT's lines are asked of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from ottla.sql.language.statements import Print

Lines = AsyncIterator[bytes]


class Printer(Protocol):
    """PRINT's lines."""

    def __call__(self, statement: Print, properties: Mapping[str, str]) -> Lines:
        """The lines, to the topic's end or for ever. Raises SqlError."""
