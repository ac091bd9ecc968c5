"""The metrics of SQL's servers: statements, queries of every kind, tables that are kept, the query host."""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "SQL"


def _panel(title: str, by: tuple[str, ...] = (), query: str = "") -> Panel:
    return Panel(Dashboard.SERVICES, "SQL", title, by, query)


STATEMENTS: Final = Metric(
    "ottla_sql_statements_total",
    Kind.COUNTER,
    "Statements that were carried out here or refused, by what they are; unparsed: text that is none.",
    ("statement", "outcome"),
    panel=_panel("Statements a second", ("statement", "outcome")),
)
COMMANDS: Final = Metric(
    "ottla_sql_commands", Kind.GAUGE, "The number of the last statement that this server has replayed."
)
COMMANDS_READABLE: Final = Metric(
    "ottla_sql_commands_readable",
    Kind.GAUGE,
    "0 once the topic of commands has one that this server can't read: it takes no statements then.",
    (),
    Unit.FLAG,
)
SOURCES: Final = Metric("ottla_sql_sources", Kind.GAUGE, "Streams and tables that there are.", ("kind",))

PULLS: Final = Metric(
    "ottla_sql_pull_queries_total",
    Kind.COUNTER,
    "Pull queries that have ended, by what was read: key (rows that were looked up), range (of keys), table, "
    "stream; outcome: ok or error, which a client that went away counts as.",
    ("reads", "outcome"),
    panel=_panel("Pull queries a second", ("reads", "outcome")),
)
PULL_SECONDS: Final = Metric(
    "ottla_sql_pull_query_duration_seconds",
    Kind.HISTOGRAM,
    "From a pull query's plan to its last row.",
    ("reads",),
    Unit.SECONDS,
    panel=_panel(
        "99 of 100 pull queries took at most",
        (),
        "histogram_quantile(0.99, sum by (le, reads) (rate("
        "ottla_sql_pull_query_duration_seconds_bucket[$__rate_interval])))",
    ),
)
PULLS_PASSED_ON: Final = Metric(
    "ottla_sql_pull_queries_passed_on_total",
    Kind.COUNTER,
    "Pull queries that another server has answered, as this one still read the table.",
)
PUSHES: Final = Metric(
    "ottla_sql_push_queries",
    Kind.GAUGE,
    "Push queries that run, by where their rows are made: server or spark.",
    ("runs_on",),
    panel=_panel("Push queries", ("runs_on",)),
)
PUSHES_STARTED: Final = Metric(
    "ottla_sql_push_queries_started_total", Kind.COUNTER, "Push queries that have begun.", ("runs_on",)
)
PUSH_ERRORS: Final = Metric(
    "ottla_sql_push_query_errors_total",
    Kind.COUNTER,
    "Push queries that have ended by an error: Spark's, the topic's, or a client that is too slow.",
    panel=_panel("Push queries that fail, a second"),
)
ROWS: Final = Metric(
    "ottla_sql_rows_sent_total",
    Kind.COUNTER,
    "Rows of answers, by the query's kind: pull or push.",
    ("query",),
    panel=_panel("Rows sent a second", ("query",)),
)

QUERIES: Final = Metric(
    "ottla_sql_persistent_queries",
    Kind.GAUGE,
    "Persistent queries by state, in the words of SHOW QUERIES; no series on servers that run none.",
    ("state",),
    panel=_panel("Persistent queries by state", ("state",)),
)
QUERY_LAG: Final = Metric(
    "ottla_sql_query_lag_records",
    Kind.GAUGE,
    "Records of a persistent query's sources that it has not read, as of its last batch.",
    ("query",),
    panel=_panel("Records that queries have to read", ("query",)),
)
QUERY_ROWS: Final = Metric(
    "ottla_sql_query_rows_per_second",
    Kind.GAUGE,
    "How fast a persistent query did its last batch, in rows of its sources.",
    ("query",),
)
QUERY_UNREADABLE: Final = Metric(
    "ottla_sql_query_unreadable_records",
    Kind.GAUGE,
    "Records that a persistent query could not read since its start; they are in the processing log.",
    ("query",),
)
QUERY_FAILURES: Final = Metric(
    "ottla_sql_query_failures",
    Kind.GAUGE,
    "How often a persistent query has failed in a row; 0 once it has done a batch.",
    ("query",),
)
HOST_STARTS: Final = Metric(
    "ottla_sql_host_starts_total",
    Kind.COUNTER,
    "Times that this server has started the process with Spark: more than one in a rule means that it died.",
    panel=_panel("Starts of the query host"),
)
HOST_READY: Final = Metric("ottla_sql_host_ready", Kind.GAUGE, "1 while Spark runs here.", (), Unit.FLAG)

VIEWS: Final = Metric(
    "ottla_sql_views",
    Kind.GAUGE,
    "Tables that this server keeps on its disk for pull queries, by state: restoring, running, failed.",
    ("state",),
)
VIEW_LAG: Final = Metric(
    "ottla_sql_view_lag_records",
    Kind.GAUGE,
    "Committed offsets of a table's topic that are not in this server's copy.",
    ("table",),
    panel=_panel("Offsets that tables are behind", ("table",)),
)

METRICS: Final = metrics_in(globals())
