"""The stores of configurations and statuses as the worker sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.connect.core.config_image import ConfigImage
from ottla.connect.core.config_records import ConfigRecord
from ottla.connect.core.decisions import Decided
from ottla.connect.core.status_image import StatusImage, StatusRecord

T = TypeVar("T")

Listener = Callable[[ConfigRecord], None]
"""Is told of each record that was replayed after the start."""


class ConfigStore(Protocol):
    """Configurations: written by the leader alone, replayed by every worker."""

    @property
    def image(self) -> ConfigImage:
        """Changes as records are replayed."""

    def listen(self, listener: Listener) -> None:
        """Tell this listener of what comes after the start."""

    async def write(self, decide: Callable[[], Decided[T]]) -> T:
        """Decide, store, replay, and return the decision's answer. Raises Refused, and errors of replicated/.

        One write at a time, and on the leader alone.
        """

    async def wait_for_offset(self, offset: int) -> None:
        """Wait until the record at this offset was replayed."""


class StatusStore(Protocol):
    """Statuses: each worker writes those of what it runs."""

    @property
    def image(self) -> StatusImage:
        """Changes as records are replayed."""

    def put(self, records: Sequence[StatusRecord]) -> None:
        """Store these records soon; of several for one key the last one is stored."""
