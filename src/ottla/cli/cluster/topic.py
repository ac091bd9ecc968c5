"""`ottla topic`: what its commands are, each of which is imported when it is called."""

from __future__ import annotations

from typing import Final

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

_LISTING: Final = "ottla.cli.cluster.topic_listing"
_CHANGES: Final = "ottla.cli.cluster.topic_changes"

topic = LazyGroup(
    "topic",
    entries={
        "list": Entry(f"{_LISTING}:list_topics", "list topics, all or those in trouble"),
        "describe": Entry(f"{_LISTING}:describe", "tell partitions, leaders, sizes and settings of topics"),
        "create": Entry(f"{_CHANGES}:create", "create topics"),
        "alter": Entry(f"{_CHANGES}:alter", "give topics more partitions, or other settings"),
        "delete": Entry(f"{_CHANGES}:delete", "delete topics with all their records"),
        "purge": Entry(f"{_CHANGES}:purge", "delete records of topics, all or those before a place"),
    },
    help="""Create, list, describe, alter, delete and purge topics.

NAME may be a pattern as in a shell: 'orders-*' in quotes. A pattern never means an internal topic when
topics are to be changed, and what it deletes or purges is asked about first.""",
    examples=(
        "ottla topic list",
        "ottla topic create orders --partitions 12",
        "ottla topic describe 'orders*'",
    ),
)
