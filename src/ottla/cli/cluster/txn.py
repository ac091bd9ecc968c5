"""`ottla txn`: what its commands are, each of which is imported when it is called."""

from __future__ import annotations

from typing import Final

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

_READING: Final = "ottla.cli.cluster.txn_reading"
_ENDING: Final = "ottla.cli.cluster.txn_ending"

txn = LazyGroup(
    "txn",
    entries={
        "list": Entry(f"{_READING}:list_", "list transactional ids, by state, producer, duration, name"),
        "describe": Entry(f"{_READING}:describe", "tell the transaction of transactional ids"),
        "describe-producers": Entry(f"{_READING}:producers", "tell the producers that a partition knows"),
        "find-hanging": Entry(f"{_READING}:find_hanging_", "find transactions that no coordinator will end"),
        "abort": Entry(f"{_ENDING}:abort", "abort hanging transactions in their partitions"),
        "force-terminate": Entry(f"{_ENDING}:terminate", "abort a transaction and fence its producer"),
    },
    help="List, describe and end transactions.",
    examples=(
        "ottla txn list --state ongoing",
        "ottla txn find-hanging --topic orders",
        "ottla txn abort --topic orders --partition 0 --start-offset 4711",
    ),
)
