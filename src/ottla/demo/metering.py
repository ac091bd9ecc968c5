"""The metrics and the health of the demo's queries, from the progress that Spark reports of each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.config.errors import ConfigError
from ottla.metrics.health import Check, Verdict
from ottla.metrics.settings import Address, parse_address
from ottla.pipeline.query.metrics import QueryMetrics
from ottla.pipeline.query.query_progress import parse_progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from ottla.demo.query import Queries
    from ottla.pipeline.spark.session import SparkPipelineSession

PROGRAM: Final = "ottla demo"


def addresses(given: str) -> tuple[Address, Address]:
    """Where the demo's own broker and its queries serve metrics, on two ports. Raises ConfigError."""
    first = parse_address(given)
    if first.uses_tls:
        raise ConfigError("ottla demo serves metrics by http alone: give --metrics HOST:PORT")
    return first, first._replace(port=first.port and first.port + 1)


class DemoMetrics:
    """The figures of the queries; nothing is told of them before they start."""

    def __init__(self) -> None:
        self.metrics = QueryMetrics(program=PROGRAM)
        self._session: SparkPipelineSession | None = None
        self._queries: Queries | None = None
        self.metrics.health.alive.append(Check("spark", self._spark))
        self.metrics.health.ready.append(Check("queries", self._running))

    def begin(self, session: SparkPipelineSession) -> None:
        """Spark runs: its queries are watched from now on."""
        self._session = session
        session.spark.streams.addListener(self._listener())

    def started(self, queries: Queries) -> None:
        """The queries run."""
        self._queries = queries
        for query in (queries.scoring, queries.counting):
            self.metrics.started(query.name)

    def _spark(self) -> Verdict:
        if self._session is None:
            return Verdict(True, "Spark has not been started yet")
        return Verdict(self._session.alive, "Spark runs" if self._session.alive else "Spark's JVM has ended")

    def _running(self) -> Verdict:
        if self._queries is None:
            return Verdict(False, "the queries have not been started yet")
        failure = self._queries.failure()
        return Verdict(failure is None, failure or "both queries run")

    def _listener(self) -> StreamingQueryListener:
        from pyspark.sql.streaming.listener import StreamingQueryListener

        metrics = self.metrics

        class Listener(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:
                pass

            def onQueryProgress(self, event: Any) -> None:
                metrics.observe(parse_progress(event.progress.json))

            def onQueryIdle(self, event: Any) -> None:
                pass

            def onQueryTerminated(self, event: Any) -> None:
                pass

        return Listener()
