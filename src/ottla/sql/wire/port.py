"""What the wire is given: who may come in, and who answers statements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ottla.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result."""

    name: str
    type: SqlType


async def _nothing() -> None:
    return None


@dataclass(slots=True)
class Result:
    """What a statement gives. columns: None for one without rows; tag: its command's, without a count.

    rows: in chunks; a push query's go on until `close`. closing: what ends it.
    """

    tag: str
    columns: tuple[Column, ...] | None = None
    rows: AsyncIterator[Sequence[Sequence[Any]]] | None = None
    notices: Sequence[str] = ()
    closing: Callable[[], Awaitable[None]] = field(default=_nothing)

    async def close(self) -> None:
        """End it. Safe to call twice."""
        closing, self.closing = self.closing, _nothing
        await closing()


class Answers(Protocol):
    """Answers one connection's statements."""

    async def describe(self, text: str) -> tuple[Column, ...] | None:
        """The columns that a statement gives, None for none. Raises SqlError."""

    async def run(self, text: str) -> Result:
        """Carry a statement out. Raises SqlError, ClusterError."""


AdmitUser = Callable[[str, str | None], Awaitable["Answers | None"]]
"""By a user's name and password: the answers for him; None if he may not come in."""
Admit = Callable[[bytes | None, str, str | None], Awaitable["Answers | None"]]
"""The same, with the certificate before them that TLS has verified; None without one."""
