"""The registry as its routes see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ottla.config.settings import Settings
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.keys.reading import KeyReads
from ottla.registry.core.keys.writing import KeyWrites
from ottla.registry.core.reading import Reads
from ottla.registry.core.writing import Writes
from ottla.registry.forwarding import Written
from ottla.replicated.decision import Decision

T = TypeVar("T")

Gone = Callable[[], Awaitable[None]]
"""Ends when the client has hung up."""


@dataclass(frozen=True, slots=True)
class State:
    """`problem`: why this instance only takes reads, or None. `primary`: the URL of the primary, if any."""

    problem: str | None
    primary: str | None


class Keys(Written, Protocol):
    """The keys of encrypted fields as one instance has them: a state of its own, beside that of schemas."""

    async def open(self) -> None:
        """Return when the topic of keys was read, which the first call begins; before anything else.

        Raises ApiError 50001 when it can't be read, 50002 when that takes long.
        """

    @property
    def reads(self) -> KeyReads:
        """Queries of the keys."""

    @property
    def writes(self) -> KeyWrites:
        """Decisions, for `write`."""

    async def write(self, decide: Callable[[], Decision[T]]) -> T:
        """As `Registry.write`."""


class Registry(Written, Protocol):
    """One instance: its image, the queries and decisions over it, and the way to store a decision."""

    @property
    def settings(self) -> Settings:
        """The settings of settings.py."""

    @property
    def image(self) -> RegistryImage:
        """Changes as records are read; only reads are allowed."""

    @property
    def reads(self) -> Reads:
        """Queries of the image."""

    @property
    def writes(self) -> Writes:
        """Decisions, for `write`."""

    @property
    def kafka_cluster_id(self) -> str:
        """The id of the cluster that keeps the schemas."""

    @property
    def keys(self) -> Keys:
        """The keys of encrypted fields."""

    @property
    def state(self) -> State:
        """Whether this instance takes writes, and which one is the primary."""

    async def consider(self, query: Callable[[], T], gone: Gone | None = None) -> T:
        """The answer of a query that may take long, in a thread: the image stands still meanwhile.

        Work that it puts off (workbench.py) is done in between, until `gone` ends: the client has left then.
        Raises ApiError: that of the query, 50002 when it takes too long.
        """

    async def write(self, decide: Callable[[], Decision[T]], gone: Gone | None = None) -> T:
        """Decide, store, wait until this instance has read its records back, and return the answer.

        Work that the decision puts off is done as with `consider`, before the write has its turn.

        One write at a time; only on the primary (others forward the whole request before it gets here).
        Raises ApiError: that of the decision, 50001 when the topic is lost, 50002 when it takes too long,
        50004 when not the primary.
        """
