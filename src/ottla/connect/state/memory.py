"""The stores of a standalone worker: in memory, as its connectors come from files at each start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.connect.core.config_image import ConfigImage
from ottla.connect.core.decisions import Decided
from ottla.connect.core.status_image import StatusImage, StatusRecord
from ottla.connect.state.stores import Listener

T = TypeVar("T")


class MemoryConfigs:
    """Satisfies ConfigStore."""

    def __init__(self) -> None:
        self._image = ConfigImage()
        self._listener: Listener | None = None

    @property
    def image(self) -> ConfigImage:
        """See ConfigStore."""
        return self._image

    def listen(self, listener: Listener) -> None:
        """See ConfigStore."""
        self._listener = listener

    async def write(self, decide: Callable[[], Decided[T]]) -> T:
        """See ConfigStore."""
        decided = decide()
        for record in decided.records:
            self._image.replay(record, self._image.offset + 1)
            if self._listener is not None:
                self._listener(record)
        return decided.answer

    async def wait_for_offset(self, offset: int) -> None:
        """See ConfigStore."""


class MemoryStatuses:
    """Satisfies StatusStore."""

    def __init__(self) -> None:
        self._image = StatusImage()

    @property
    def image(self) -> StatusImage:
        """See StatusStore."""
        return self._image

    def put(self, records: Sequence[StatusRecord]) -> None:
        """See StatusStore."""
        for record in records:
            self._image.replay(record)
