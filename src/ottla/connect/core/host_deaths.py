"""Which connectors get a host process of their own: those that were there at several deaths of hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

DEATHS: Final = 3
WINDOW_MS: Final = 600_000


class HostDeaths:
    """The deaths of the last WINDOW_MS by connector."""

    def __init__(self) -> None:
        self._times_ms: dict[str, list[int]] = {}
        self._alone: set[str] = set()

    def died(self, connectors: Iterable[str], now_ms: int) -> None:
        """A host has died with runs of these connectors."""
        for connector in set(connectors):
            recent = [each for each in self._times_ms.get(connector, ()) if each > now_ms - WINDOW_MS]
            self._times_ms[connector] = [*recent, now_ms][-DEATHS:]
            if len(self._times_ms[connector]) >= DEATHS:
                self._alone.add(connector)

    def isolate(self, connector: str) -> None:
        """This connector alone is to blame."""
        self._alone.add(connector)

    def forget(self, connector: str) -> None:
        """The connector is gone, or is another one now."""
        self._times_ms.pop(connector, None)
        self._alone.discard(connector)

    def is_alone(self, connector: str) -> bool:
        """Whether the connector runs in a host of its own."""
        return connector in self._alone
