"""How a query is, in ksqlDB's words.

ksqlDB's lists know RUNNING, ERROR, PAUSED and UNRESPONSIVE alone, and clients take no other word: a query
that is not where it is wanted, as Spark or the query itself still starts, or ends, is UNRESPONSIVE. EXPLAIN
has the words of Kafka Streams, which tell more.
"""

from __future__ import annotations

from typing import Final

from ottla.sql.commands.state import PersistentQuery, Wish
from ottla.sql.running.wishes import QueryLife, Stage

PAUSED: Final = "PAUSED"
ERROR: Final = "ERROR"
RUNNING: Final = "RUNNING"
UNRESPONSIVE: Final = "UNRESPONSIVE"
WORDS: Final = (RUNNING, ERROR, PAUSED, UNRESPONSIVE)
_OF_STREAMS: Final = {
    Stage.WAITING: "CREATED",
    Stage.STARTING: "REBALANCING",
    Stage.RUNNING: RUNNING,
    Stage.ENDING: "PENDING_SHUTDOWN",
}


def status_word(query: PersistentQuery, life: QueryLife | None) -> str:
    """For SHOW QUERIES and DESCRIBE."""
    if query.wish is Wish.REST:
        return PAUSED
    if life is None:
        return UNRESPONSIVE
    if life.stage is Stage.RUNNING:
        return RUNNING
    return UNRESPONSIVE if life.problem is None else ERROR


def streams_word(query: PersistentQuery, life: QueryLife | None) -> str:
    """For EXPLAIN."""
    word = status_word(query, life)
    if word != UNRESPONSIVE:
        return word
    return _OF_STREAMS[Stage.WAITING if life is None else life.stage]
