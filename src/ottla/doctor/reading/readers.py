"""The table of readers, each part of the snapshot and the parts that others are made of; a look by them."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.doctor.reading import cluster, groups, listeners, logs, metrics, rights
from ottla.doctor.reading.look import Look, LookOptions, Reader
from ottla.doctor.snapshot import Snapshot

READERS: Final[Mapping[str, Reader]] = {
    "cluster": cluster.read_cluster,
    "topics": cluster.read_topics,
    "topic_settings": cluster.read_topic_settings,
    "broker_settings": cluster.read_broker_settings,
    "moves": cluster.read_moves,
    "quorum": cluster.read_quorum,
    "clocks": cluster.read_clocks,
    "versions": cluster.read_versions,
    "contacts": cluster.read_contacts,
    "directories": logs.read_directories,
    "growth": logs.read_growth,
    "offsets": logs.read_offsets,
    "first_records": logs.read_first_records,
    "due": logs.read_due,
    "transactions": logs.read_transactions,
    "hanging": logs.read_hanging,
    "producers": logs.read_producers,
    "groups": groups.read_groups,
    "listeners": listeners.read_listeners,
    "tokens": rights.read_tokens,
    "quotas": rights.read_quotas,
    "acls": rights.read_acls,
    "metrics": metrics.read_metrics,
    # for other parts alone
    "greetings": cluster.read_greetings,
    "listed_groups": groups.read_listed_groups,
    "commits": groups.read_commits,
}


async def look(access: ClusterAccess, names: Iterable[str], options: LookOptions) -> Snapshot:
    """Look at a cluster once. names: the parts that are wanted. Raises UserError where no broker answers.

    The collector rests meanwhile: of a large cluster a million objects come, and nearly all of them stay.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return await Look(access, options, READERS).snapshot(names)
    finally:
        if collecting:
            gc.enable()
