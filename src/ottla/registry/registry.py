"""What the routes may know of the registry they run in."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ottla.config.settings import Settings
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.reading import Reads
from ottla.registry.core.writing import Decision, Writes

T = TypeVar("T")

Gone = Callable[[], Awaitable[None]]
"""Ends when the client has hung up."""


@dataclass(frozen=True, slots=True)
class Place:
    """An offset of a topic that may not be the only one that ever has its name."""

    topic_id: uuid.UUID
    offset: int

    def encode(self) -> str:
        """As a header's value."""
        return f"{self.topic_id}:{self.offset}"

    @classmethod
    def decode(cls, text: str) -> Place | None:
        """None for what is no place: that of an instance of another kind."""
        topic_id, _, offset = text.partition(":")
        try:
            return cls(uuid.UUID(topic_id), int(offset))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class State:
    """What `problem` an instance has that only takes reads, and which instance is the primary, by its URL."""

    problem: str | None
    primary: str | None


class Registry(Protocol):
    """One instance: its image, what can be asked of it and decided, and how a decision is stored."""

    @property
    def settings(self) -> Settings:
        """Those of settings.py."""

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
    def is_primary(self) -> bool:
        """Whether writes are decided here."""

    @property
    def place(self) -> Place:
        """Up to where which topic was read."""

    @property
    def state(self) -> State:
        """How this instance is."""

    def require_topic(self) -> None:
        """Raises ApiError 50001 when the topic is lost, whose image is still served here."""

    async def forward(self, request: Request) -> Response:
        """The primary's answer to a write that came here. Raises ApiError 50001, 50003, 50004."""

    async def consider(self, query: Callable[[], T], gone: Gone | None = None) -> T:
        """The answer of a query that may take long, in a thread: the image stands still meanwhile.

        What it puts off (workbench.py) is done in between, until `gone` ends: nobody waits any more then.
        Raises ApiError: that of the query, 50002 when it takes too long.
        """

    async def write(self, decide: Callable[[], Decision[T]], gone: Gone | None = None) -> T:
        """Decide, store, wait until this instance has read its records back, and return the answer.

        What the decision puts off is done as with `consider`, before the write has its turn.

        One write at a time; only on the primary (others forward the whole request before it gets here).
        Raises ApiError: that of the decision, 50001 when the topic is lost, 50002 when it takes too long,
        50004 when not the primary.
        """
