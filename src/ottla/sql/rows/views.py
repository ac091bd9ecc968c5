"""A table's rows on the local disk, followed from its topic, so that a pull query finds them in microseconds.

The file and the thread that reads the topic are those of Streams' interactive queries (streams/views). Keys
and values are kept as the topic's bytes. Only committed records are read; a batch of them and the positions
behind it are written together. A partition's transactions come one after the other and whole, those of two
partitions at two moments: so an answer is of one moment for each key, and a scan may see half of what a query
has written across partitions. That is why answers tell the positions.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.client.cluster import KafkaCluster
from ottla.sql.catalog.sources import Source
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import WindowKind
from ottla.sql.rows.codecs import RowCodec
from ottla.streams.views.followed_topic import FollowedTopic, ViewError
from ottla.streams.views.follower import Follower, StoredTable
from ottla.streams.views.view_codec import TableKey
from ottla.streams.views.view_status import Progress, ViewState, ViewStatus
from ottla.streams.views.view_store import ViewStore

CLOSE_SECONDS: Final = 30.0
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


class _Bytes:
    """Keys and values as they are, with the window apart: satisfies RecordCodec."""

    def __init__(self, codec: RowCodec) -> None:
        self._codec = codec
        self.windowed = codec.source.windowed is not None
        # What a query of ours has written is right; a record of anybody else's must not hide the row before.
        self._checks = codec.source.written_by is None

    def key(self, data: bytes) -> TableKey:
        """The key that a record's bytes are. Raises ValueError."""
        key, window = self._codec.parted(data)
        assert key is not None
        if self._checks:
            self._codec.check_key(key)
        return TableKey(key, 0, 0) if window is None else TableKey(key, window.start_ms, window.end_ms)

    def value(self, data: bytes) -> bytes:
        """The value's bytes. Raises ValueError."""
        if self._checks:
            self._codec.check_value(data)
        return data


class TableView:
    """One table. It answers once it has been read to the end that it had at first."""

    def __init__(self, source: Source, codec: RowCodec, cluster: KafkaCluster, directory: Path) -> None:
        """Raises SqlError, ClusterError."""
        self.source = source
        self.codec = codec
        self.progress = Progress()
        self._stop = threading.Event()
        try:
            topic = FollowedTopic.found(cluster, source.topic)
        except ViewError as problem:
            raise SqlError(f"{source.name}: {problem}", None) from None
        directory.mkdir(parents=True, exist_ok=True)
        # Other columns or formats make other records readable, so the table is read anew.
        shape = (
            ""
            if source.written_by is not None
            else f"{source.schema} {source.key_format} {source.value_format}"
        )
        identity = f"{topic.id} {source.topic} {source.windowed} bytes {shape}"
        name = f"{_UNSAFE.sub('_', source.name)[:60]}-{hashlib.sha1(source.name.encode()).hexdigest()[:8]}"
        table = _Bytes(codec)
        self.store = ViewStore(directory / f"{name}.db", identity, windowed=table.windowed)
        stored = StoredTable(
            source.name,
            self.store,
            table,
            _retention_ms(source),
            skips_unreadable=True,
            whole_transactions=True,
        )
        follower = Follower(topic, stored, self.progress, self._stop)
        self._thread = threading.Thread(target=follower.run, name=f"view {source.name}", daemon=True)
        self._thread.start()

    @property
    def status(self) -> ViewStatus:
        """How far it is."""
        return self.progress.status

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked."""
        return self.progress.state is ViewState.RUNNING

    def require(self) -> None:
        """Raises SqlError while it can't be asked."""
        status = self.status
        if status.state is ViewState.FAILED:
            raise SqlError(f"{self.source.name} can't be read: {status.error}", None)
        if status.state is ViewState.RESTORING:
            raise SqlError(
                f"{self.source.name} is still being read: {status.lag} records are left", None, "ask again"
            )

    def close(self) -> None:
        """End it; the file stays."""
        self._stop.set()
        self._thread.join(CLOSE_SECONDS)
        self.store.close()


def _retention_ms(source: Source) -> int | None:
    """How long windows stay: as the topic has them, else a day past their end."""
    if source.windowed is None:
        return None
    if source.retention_ms is not None:
        return source.retention_ms
    size = 0 if source.windowed.kind is WindowKind.SESSION else source.windowed.size_ms or 0
    return max(size * 2, 0) + 86_400_000


class TableViews:
    """The views of a service's tables on this server, opened when they are first asked for."""

    def __init__(self, cluster: KafkaCluster, directory: Path, registry: Mapping[str, str] | None) -> None:
        self._cluster = cluster
        self._directory = directory
        self._registry = registry
        self._views: dict[str, TableView] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def of(self, source: Source, wait_seconds: float) -> TableView:
        """The view of a table, once it can be asked. Blocks. Raises SqlError, ClusterError."""
        view = self.begun(source)
        if view.status.state is ViewState.RESTORING:
            view.progress.wait_until_running(wait_seconds)
        view.require()
        return view

    def begun(self, source: Source) -> TableView:
        """The view of a table, which may not be there yet. Blocks. Raises SqlError, ClusterError."""
        with self._lock:
            if self._is_closed:
                raise SqlError("the server stops", None, "ask another one")
            view = self._views.get(source.name)
            if view is not None and (view.source != source or view.status.state is ViewState.FAILED):
                view.close()
                view = None
            if view is None:
                codec = RowCodec(source, self._registry)
                view = TableView(source, codec, self._cluster, self._directory)
                self._views[source.name] = view
            return view

    def ready(self, source: Source) -> TableView | None:
        """The view of a table if it can be asked at once."""
        view = self._views.get(source.name)
        if view is None or view.source != source or view.progress.state is not ViewState.RUNNING:
            return None
        return view

    def statuses(self) -> Mapping[str, ViewStatus]:
        """How far each view is, by the table's name."""
        with self._lock:
            views = dict(self._views)
        return {name: each.status for name, each in views.items()}

    def keep(self, names: frozenset[str]) -> None:
        """Close the views of tables that are gone. Blocks."""
        with self._lock:
            gone = [self._views.pop(name) for name in list(self._views) if name not in names]
        for each in gone:
            each.close()

    def close(self) -> None:
        """Close all; none is opened again."""
        with self._lock:
            self._is_closed = True
        self.keep(frozenset())
