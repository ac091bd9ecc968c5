"""An application: its sources, and by them its whole topology; to be run, described and previewed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.building import Building
from ottla.streams.dsl.streams_and_tables import GlobalTable, Stream, Table
from ottla.streams.plan.internal_formats import as_formats
from ottla.streams.plan.node import Topics, TopologyError
from ottla.streams.plan.nodes.source import GlobalTable as GlobalTableNode
from ottla.streams.plan.records import Expression
from ottla.streams.plan.topology import Topology

if TYPE_CHECKING:
    from ottla.streams.kit.results import ApplicationPreview
    from ottla.streams.plan.internal_formats import FormatOrType
    from ottla.streams.run.application import RunningStreams
    from ottla.streams.run.settings import StreamsSettings


class Streams:
    """An application: its sources, and by them its whole topology. `name` is its application id.

    The name goes into consumer groups, internal topics, transactional ids and checkpoints: two applications
    with one name on one cluster are one application twice.
    """

    def __init__(self, name: str) -> None:
        self._building = Building(name)

    @property
    def name(self) -> str:
        return self._building.name

    # Sources

    def stream(
        self,
        *topics: str,
        pattern: str | None = None,
        key: FormatOrType = bytes,
        value: FormatOrType = bytes,
        start: datetime | str = "earliest",
        timestamp: Expression | None = None,
        name: str | None = None,
    ) -> Stream:
        """The records of topics, or of all topics whose names match `pattern` (a Java regular expression).

        start: where to begin without a checkpoint: "earliest", "latest" or a time. timestamp: takes the event
        time from the record instead of the record's timestamp.
        """
        read, formats = Topics(topics, pattern), as_formats(key, value)
        return Stream(self._building, self._building.stream(read, formats, start, timestamp, name))

    def table(
        self,
        topic: str,
        *,
        key: FormatOrType = bytes,
        value: FormatOrType = bytes,
        timestamp: Expression | None = None,
        name: str | None = None,
    ) -> Table:
        """A topic as a table: the last value of each key; records without a key are dropped, as in Kafka.

        timestamp: as of `stream`; it is asked for deletions too, whose value is null.
        """
        return Table(self._building, self._building.table(topic, as_formats(key, value), timestamp, name))

    def global_table(
        self, topic: str, *, key: FormatOrType = bytes, value: FormatOrType = bytes, name: str | None = None
    ) -> GlobalTable:
        """A topic as a table that is whole on every machine, for `Stream.join_global`."""
        named = self._building.named(name, "global-table")
        return GlobalTable(GlobalTableNode(named, topic, as_formats(key, value)))

    # Running

    def topology(self) -> Topology:
        """The topology built so far. Raises TopologyError when nothing is written anywhere."""
        return self._building.topology()

    def describe(self) -> str:
        """The topology as text: its queries, and the topics and the state of each."""
        from ottla.streams.show.describe import describe

        return describe(self.topology())

    def start(self, settings: StreamsSettings | None = None) -> RunningStreams:
        """Start all queries and return at once. Raises StreamsError with a message for the user."""
        from ottla.streams.run.application import start
        from ottla.streams.run.settings import StreamsSettings

        return start(self.topology(), settings or StreamsSettings.from_environment())

    def run(self, settings: StreamsSettings | None = None) -> None:
        """Start all queries and go on until one fails or the process is told to stop."""
        with self.start(settings) as running, running.stopping_on_signals():
            running.await_end()

    # In notebooks

    def preview(
        self,
        data: Mapping[str, Iterable[Any]] | None = None,
        *,
        bootstrap: str | None = None,
        records: int = 20,
    ) -> ApplicationPreview:
        """The records that it would write for `data` by topic, or for the last records of a cluster's topics.

        Nothing is written. Raises KitError. More options: `preview_application` of ottla.streams.testing.
        """
        from ottla.streams.kit.preview import preview_application

        return preview_application(self, data, bootstrap=bootstrap, records=records)

    def _repr_html_(self) -> str:
        from ottla.streams.show.picture import picture_html

        if not self._building.writes:
            return f"<i>{self.name} writes nowhere yet</i>"
        return picture_html(self.topology())


def find_app(values: Iterable[Any]) -> Streams:
    """The one application among a module's values. Raises TopologyError."""
    found = {id(each): each for each in values if isinstance(each, Streams)}
    if len(found) != 1:
        raise TopologyError(f"{len(found)} applications (objects of Streams) found, one is needed")
    return next(iter(found.values()))
