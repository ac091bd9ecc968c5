"""`ottla demo`: the sample pipeline over real tweets, on Spark, with its live result."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ottla.cli.frame.commands import command
from ottla.cli.frame.options import positive_number, require_at_most_one
from ottla.cli.servers.options import metrics_option

POSTGRES_VARIABLE = "OTTLA_POSTGRES"
ELASTICSEARCH_VARIABLE = "OTTLA_ELASTICSEARCH"
DEFAULT_LISTEN = "127.0.0.1:9092"


@command("demo", examples=["ottla demo", "ottla demo --once --limit 1000", "ottla demo --connect"])
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where everything is kept; the same command on it goes on where the last one stopped. [default: a "
    "directory that is removed at the end]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Where the demo's own broker listens. [default: {DEFAULT_LISTEN}]",
)
@click.option("--bootstrap", metavar="HOST:PORT", help="Use this cluster in place of a broker of its own.")
@click.option(
    "--rate",
    type=positive_number,
    metavar="N",
    help="Tweets a second. [default: 25; with --once as fast as they go]",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N tweets.")
@click.option(
    "--once",
    is_flag=True,
    help="End when every tweet has arrived, print one line of JSON, exit with 0 only if each is in every "
    "store exactly once.",
)
@click.option(
    "--stall",
    type=positive_number,
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="With --once: give up when nothing has moved for so long.",
)
@click.option(
    "--postgres",
    metavar="URL",
    help=f"Keep the documents in PostgreSQL, not in SQLite. [or {POSTGRES_VARIABLE}]",
)
@click.option(
    "--elasticsearch",
    metavar="URL",
    help=f"Index in Elasticsearch, not in tantivy. [or {ELASTICSEARCH_VARIABLE}]",
)
@click.option(
    "--connect",
    is_flag=True,
    help="The second act: the same tweets through connectors, in the six steps of docs/connect.md.",
)
@metrics_option("The demo's own broker listens on PORT, its queries on the port behind.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
def demo(
    data: Path | None,
    listen: str | None,
    bootstrap: str | None,
    rate: float | None,
    limit: int | None,
    once: bool,
    stall: float,
    postgres: str | None,
    elasticsearch: str | None,
    connect: bool,
    metrics: str | None,
    master: str,
) -> int:
    """Run the sample pipeline: real tweets through a broker and Spark.

    They are produced to `tweets`, scored into `tweets.scored`, counted into `tweets.sentiment.counts`, stored
    as documents and indexed for search, each exactly once.

    With --connect they come in by a source connector, are scored by a Streams application, stored as
    documents by a sink, read back from the store by its source connector, and go through a second
    application into another store, and into Elasticsearch if --elasticsearch names one.
    """
    require_at_most_one({"--listen": listen, "--bootstrap": bootstrap})
    require_at_most_one({"--connect": connect, "--metrics": metrics})
    # Imported here: `ottla demo --help` need not wait for anything.
    from ottla.demo.run import run_demo
    from ottla.demo.stage import DemoOptions

    return run_demo(
        DemoOptions(
            data=data,
            listen=listen or DEFAULT_LISTEN,
            bootstrap=bootstrap,
            rate=rate,
            once=once,
            postgres=postgres or os.environ.get(POSTGRES_VARIABLE) or None,
            elasticsearch=elasticsearch or os.environ.get(ELASTICSEARCH_VARIABLE) or None,
            limit=limit,
            stall_seconds=stall,
            master=master,
            metrics=metrics,
            connect=connect,
        )
    )
