"""Waits for the markers of transactions: brokers answer a commit a moment before they write them.

Until then a consumer of committed records does not see what has been committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Final

from ottla.client.cluster import KafkaCluster
from ottla.streams.plan.planner import Plan

MARKERS_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.1

log = logging.getLogger("ottla.streams")


def wait_for_markers(topics: Collection[str], cluster: KafkaCluster) -> None:
    """Wait until no transaction is open in the topics, for MARKERS_SECONDS at most: others may write too.

    Raises NoSuchTopic, ClusterError.
    """
    deadline = time.monotonic() + MARKERS_SECONDS
    places = [(topic, number) for topic in topics for number in cluster.partitions(topic)]
    while cluster.ends_of(places) != cluster.ends_of(places, committed=False):
        if time.monotonic() > deadline:
            log.warning("there are transactions that do not end in %s", ", ".join(topics))
            return
        time.sleep(LOOK_SECONDS)


def topics_written(plan: Plan) -> list[str]:
    """The topics that the plan's sinks write, but for those whose names come from records."""
    written = (sink.facts.writes for query in plan.queries for sink in query.sinks)
    return sorted({each.topic for each in written if each is not None and each.kafka and each.topic})
