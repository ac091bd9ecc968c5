"""Start one query of an application: admitted, compiled, checked against its state, written, watched.

The order matters. Every check that can refuse the start comes before the first change: the query's group and
checkpoint (admission), the topology's expressions (compilation), the state's fingerprint, the sink's ledger.
Then the query runs, and with it its heartbeats and, for poison records in front of its state, a second query
over the same sources. That one may be started later, where it misses nothing by it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.pipeline.query.query import PipelineQuery
from ottla.pipeline.query.realtime import Mode
from ottla.pipeline.query.source import EARLIEST
from ottla.streams.compile.compiler import compile_dead_letters, compile_query
from ottla.streams.plan.planner import PlannedQuery
from ottla.streams.run.admitted import Admitted, admit, kafka_source, mode_for
from ottla.streams.run.cluster_inputs import inputs_of
from ottla.streams.run.context import RunContext
from ottla.streams.run.markers import wait_for_markers
from ottla.streams.run.reading_order import ReadingOrder, internal_topics_read
from ottla.streams.run.sinks import dead_letter_writer, writer_of
from ottla.streams.run.state_check import check_state, checkpoint_of
from ottla.streams.run.state_stores import store_settings
from ottla.streams.run.watchers import Watchers

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ottla.streams.compile.inputs import Types


@dataclass(frozen=True, slots=True)
class StartedQuery:
    """A query that runs. types: by internal topic that it writes, key and value type."""

    name: str
    mode: Mode
    types: Mapping[str, Types]


@dataclass(frozen=True, slots=True)
class QueryStarter:
    """Starts an application's queries, in the order of its plan."""

    context: RunContext
    watchers: Watchers
    reading: ReadingOrder | None
    """None: Spark's sources decide where batches end."""
    later: Callable[[Callable[[], None]], None] | None = None
    """Has something done later; None where there is no later."""

    def start(self, query: PlannedQuery, names: Collection[str], types: Mapping[str, Types]) -> StartedQuery:
        """Start a query. names: the nodes whose poison records it reports. Raises UserError.

        types: of the internal topics that the queries before it write.
        """
        context, watchers = self.context, self.watchers
        name = f"{context.name}-{query.name}"
        if context.settings.pace.until_caught_up:
            # Those before have ended and committed all that this one is to read.
            wait_for_markers(internal_topics_read(query), context.cluster)
        in_batches = self.reading is not None and self.reading.is_read_by_batches(query)
        mode = mode_for(context, query, in_batches=in_batches)
        admitted = admit(context, name, query, mode)
        beats = watchers.heartbeats_of(name, query)
        reading = None if self.reading is None else self.reading.query(admitted)
        compiled = compile_query(query, inputs_of(context, admitted, types, beats, reading), names)
        check_state(context, admitted, compiled, heartbeats=beats is not None)
        watchers.keep_global_tables(compiled.global_tables)
        writer = writer_of(context, admitted, compiled)
        with store_settings(context.spark, query.stateful):
            started = self._run(admitted, writer)
        if beats is not None:
            watchers.start_heartbeat(query, started)
        if compiled.state is not None and compiled.state.may_have_dead_letters:
            self._start_dead_letters(f"{name}-dead-letters", query, names, types)
        return StartedQuery(name, mode, compiled.written.types)

    def _start_dead_letters(
        self, name: str, query: PlannedQuery, names: Collection[str], types: Mapping[str, Types]
    ) -> None:
        """The poison records in front of a stateful node, by a query of their own over the same sources."""

        def begin() -> None:
            admitted = admit(self.context, name, query, None)
            frames = compile_dead_letters(query, inputs_of(self.context, admitted, types, None), names)
            self._run(admitted, dead_letter_writer(self.context, admitted, frames))

        if self.later is not None and self._can_wait(name, query):
            self.later(begin)
        else:
            begin()

    def _can_wait(self, name: str, query: PlannedQuery) -> bool:
        """Whether a query that begins later reads what it would now.

        Not one that begins at a topic's end, or by a time, and has no checkpoint; nor one of internal topics,
        which are purged up to where their readers are.
        """
        settings = self.context.settings
        if settings.pace.until_caught_up or internal_topics_read(query):
            return False
        checkpoint = checkpoint_of(self.context, name)
        if checkpoint is not None and checkpoint.exists:
            return True
        return all(kafka_source(each, settings).start is EARLIEST for each in query.sources)

    def _run(self, admitted: Admitted, writer: DataStreamWriter) -> PipelineQuery:
        started = self.context.runner.start(admitted.admission, writer)
        if self.context.settings.pace.until_caught_up:
            started.await_termination()
        return started
