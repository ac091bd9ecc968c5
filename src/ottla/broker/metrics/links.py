"""The mirrors of links: their lag, and what was copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from ottla.broker.parts import Loop
from ottla.metrics.exposition import Family, by_label
from ottla.metrics.tables import broker as table

if TYPE_CHECKING:
    from ottla.broker.links.gate import LinksGate


class LinksNode(Loop, Protocol):
    """The members of a node that these metrics read."""

    @property
    def links(self) -> LinksGate:
        """The links."""
        ...


class LinkMetrics:
    """The source of the links' metrics; a broker without links has none of them."""

    def __init__(self, node: LinksNode) -> None:
        self._node = node

    def read(self) -> Iterator[Family | None]:
        """The families."""
        links = self._node.links.links
        if links is None:
            return
        now = self._node.loop.time()
        mirrored = [(link, *each.key, each) for link, each in links.mirrored()]
        yield Family(
            table.LINK_LAG,
            [
                ((link, topic, index), each.mirror.lag)
                for link, topic, index, each in mirrored
                if each.mirror.lag is not None
            ],
        )
        yield Family(
            table.LINK_LAG_SECONDS,
            [((link, topic, index), each.lag_seconds(now)) for link, topic, index, each in mirrored],
        )
        yield None
        copied = links.copied()
        yield by_label(table.LINK_RECORDS, {link: records for link, (records, _) in copied.items()})
        yield by_label(table.LINK_BYTES, {link: size for link, (_, size) in copied.items()})
        states = Counter(links.led_states())
        yield Family(table.LINK_PARTITIONS, list(states.items()))
