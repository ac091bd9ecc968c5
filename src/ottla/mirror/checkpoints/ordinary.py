"""What connectors have in place of `read` whose tasks own their transport."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.connect.data.record import SourceOffset, SourcePartition, SourceRecord


class NotRead:
    """A part of SourceConnector: its tasks are `own_task`'s, so no host calls `read`."""

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        """See SourceConnector: there is nothing to read here."""
        return iter(())
