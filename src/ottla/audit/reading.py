"""Reads the audit's topics of some clusters once, into a book."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.audit.core.book import Book
from ottla.audit.following import BOTH, Follower
from ottla.client.access import ClusterAccess
from ottla.client.audit.topics import COUNTS_TOPIC
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError


async def read_book(accesses: Sequence[ClusterAccess], lateness_ms: int, since_ms: int = 0) -> Book:
    """All that is known of buckets that began at `since_ms` or later.

    Counts are read before reports: what was sent in between is not taken for lost. Raises ClusterError, also
    for a cluster that nobody has counted.
    """
    book = Book(lateness_ms)
    book.forget(since_ms)
    clusters = [ClusterRequests(access) for access in accesses]
    try:
        for cluster, access in zip(clusters, accesses, strict=True):
            for topic in await cluster.topics([COUNTS_TOPIC]):
                if topic.error_code:
                    raise ClusterError(
                        f"nothing was counted at {access.bootstrap}: `ottla audit count` is to run there",
                        topic.error_code,
                    )
        for topic_name in BOTH:
            for cluster, access in zip(clusters, accesses, strict=True):
                await Follower(cluster, access, book, (topic_name,)).load()
    finally:
        for cluster in clusters:
            await cluster.close()
    return book
