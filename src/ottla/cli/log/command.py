"""`ottla log`: what its commands are, each of which is imported when it is called."""

from __future__ import annotations

from ottla.cli.frame.commands import LazyGroup
from ottla.cli.frame.entries import Entry

log = LazyGroup(
    "log",
    entries={
        "dump": Entry("ottla.cli.log.dumping:dump", "tell the content of files, or of a live partition"),
        "verify": Entry("ottla.cli.log.verifying:verify", "check every byte, and name the bad places"),
    },
    help="""Look into the files that a broker keeps, and verify them.

Every file of Kafka's data directory is known: segments, their indexes, snapshots, checkpoints, the quorum's
state. Nothing is ever written, so the broker may run meanwhile.""",
    examples=(
        "ottla log dump /data/orders-0 --offset 4711 --records",
        "ottla log verify /data",
    ),
)
