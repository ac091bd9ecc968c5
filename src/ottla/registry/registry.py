"""The registry as its routes see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ottla.config.settings import Settings
from ottla.registry.core.image import RegistryImage
from ottla.registry.core.reading import Reads
from ottla.registry.core.writing import Writes
from ottla.replicated.decision import Decision
from ottla.replicated.place import Place

T = TypeVar("T")

Gone = Callable[[], Awaitable[None]]
"""Ends when the client has hung up."""


@dataclass(frozen=True, slots=True)
class State:
    """`problem`: why this instance only takes reads, or None. `primary`: the URL of the primary, if any."""

    problem: str | None
    primary: str | None


class Registry(Protocol):
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
    def is_primary(self) -> bool:
        """Whether writes are decided here."""

    @property
    def place(self) -> Place:
        """How far this instance has read which topic."""

    @property
    def state(self) -> State:
        """Whether this instance takes writes, and which one is the primary."""

    def require_topic(self) -> None:
        """Raises ApiError 50001 when the topic is lost; its image is still served here."""

    async def forward(self, request: Request) -> Response:
        """The primary's answer to a write that came here. Raises ApiError 50001, 50003, 50004."""

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
