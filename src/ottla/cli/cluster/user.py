"""`ottla user`: what its commands are, each of which is imported when it is called."""

from __future__ import annotations

from typing import Final

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

user: Final = LazyGroup(
    "user",
    entries={
        "hash": Entry(
            "ottla.cli.cluster.user_hash:hash_", "make the line of a user for services' files of users"
        ),
    },
    help="Make users of the Schema Registry and the REST Proxy.",
    examples=("ottla user hash alice --role developer >> users.properties",),
)
