"""`ottla demo`: the sample pipeline over real tweets, on Spark, with its live result."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

POSTGRES_VARIABLE = "OTTLA_POSTGRES"
ELASTICSEARCH_VARIABLE = "OTTLA_ELASTICSEARCH"


def main(argv: Sequence[str]) -> int:
    """Parse the options and run the demo; its exit code."""
    options = _parser().parse_args(list(argv))
    # Imported here: `ottla demo --help` need not wait for anything.
    from ottla.demo.run import DemoOptions, run_demo

    return run_demo(
        DemoOptions(
            data=options.data,
            listen=options.listen,
            bootstrap=options.bootstrap,
            rate=options.rate,
            once=options.once,
            postgres=options.postgres or os.environ.get(POSTGRES_VARIABLE) or None,
            elasticsearch=options.elasticsearch or os.environ.get(ELASTICSEARCH_VARIABLE) or None,
            limit=options.limit,
            stall_seconds=options.stall,
            master=options.master,
        )
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla demo",
        description="Real tweets through a broker and Spark: produced to `tweets`, scored into "
        "`tweets.scored`, counted into `tweets.sentiment.counts`, stored as documents and indexed for "
        "search, each exactly once.",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="where everything is kept; the same command on it goes on where the last one stopped "
        "(default: a directory that is removed at the end)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--listen",
        default="127.0.0.1:9092",
        metavar="HOST:PORT",
        help="where the demo's own broker listens (default: %(default)s)",
    )
    where.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="use this cluster in place of a broker of its own"
    )
    parser.add_argument(
        "--rate",
        type=_positive_number,
        metavar="N",
        help="tweets a second (default: 25; with --once as fast as they go)",
    )
    parser.add_argument("--limit", type=_positive_integer, metavar="N", help="only the first N tweets")
    parser.add_argument(
        "--once",
        action="store_true",
        help="end when every tweet has arrived, print one line of JSON, exit with 0 only if each is in every "
        "store exactly once",
    )
    parser.add_argument(
        "--stall",
        type=_positive_number,
        default=120.0,
        metavar="SECONDS",
        help="with --once: give up when nothing has moved for so long (default: %(default)g)",
    )
    parser.add_argument(
        "--postgres",
        metavar="URL",
        help=f"keep the documents in PostgreSQL, not in SQLite (or {POSTGRES_VARIABLE})",
    )
    parser.add_argument(
        "--elasticsearch",
        metavar="URL",
        help=f"index in Elasticsearch, not in tantivy (or {ELASTICSEARCH_VARIABLE})",
    )
    parser.add_argument("--master", default="local[*]", help="Spark's master (default: %(default)s)")
    return parser


def _positive_number(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def _positive_integer(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
