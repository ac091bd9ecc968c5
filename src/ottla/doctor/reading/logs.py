"""Reads logs: their directories and sizes, offsets, first records, producers and open transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.client.admin.partition_offsets import EARLIEST, LATEST, FoundOffset, list_offsets
from ottla.client.cluster_requests import ClusterRequests, TopicPartition, refusal
from ottla.client.errors import ClusterError
from ottla.client.transactions import (
    Transaction,
    describe_producers,
    describe_transactions,
    hanging_transactions,
    list_transactions,
    old_transactions,
)
from ottla.doctor.reading.cluster import moves, or_error
from ottla.doctor.reading.drafts import Draft, answered, tell_failed
from ottla.doctor.reading.look import Look
from ottla.doctor.snapshot import (
    Directories,
    DueOffsets,
    FirstRecord,
    Gap,
    Growth,
    HangingTransaction,
    LogDirectory,
    NotRead,
    Offsets,
    OpenTransaction,
    Topics,
    WhyNot,
    number_of,
    partitions,
    value_of,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from ottla.protocol.messages.list_transactions_request import ListTransactionsRequest
from ottla.protocol.messages.list_transactions_response import ListTransactionsResponse

LEADER_SECONDS: Final = 1.0
"""For a leader that moves just now; partitions without one are not asked about."""
LARGEST: Final = 300
"""Partitions whose first record is looked at: they fill a disk."""
LOOKED_AT_PRODUCERS: Final = 200
MOST_CANDIDATES: Final = 1_000
"""Partitions with open transactions in which hanging ones are looked for."""
MOST_TRANSACTIONS: Final = 1_000
DEFAULT_MAX_TIMEOUT_MS: Final = 900_000
HOUR_MS: Final = 3_600_000
SOON_PART: Final = 6
RETENTION_PART: Final = 4
"""Of a short retention only the last quarter is a warning."""
OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


async def read_directories(look: Look, draft: Draft) -> Directories:
    """The log directories of all live brokers, with the size of each replica."""
    return await _directories(look.lane("logs"), draft)


async def _directories(client: ClusterRequests, draft: Draft) -> Directories:
    answers = await client.ask_all(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    found: dict[int, tuple[LogDirectory, ...] | ClusterError] = {}
    for broker, answer in answers.items():
        if isinstance(answer, ClusterError):
            found[broker] = answer
        elif answer.error_code:
            found[broker] = refusal(answer.error_code, None, f"broker {broker}")
        elif not answer.results:  # so do brokers of Kafka below 3.4 answer a client that may not ask
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            found[broker] = ClusterError(f"broker {broker} tells of no log directory", code)
        else:
            found[broker] = tuple(_directory(each) for each in answer.results)
    return answered(found, "log directories of broker", draft)


def _directory(told: Any) -> LogDirectory:
    return LogDirectory(
        told.log_dir,
        ErrorCode(told.error_code).name if told.error_code else None,
        told.total_bytes if told.total_bytes >= 0 else None,
        told.usable_bytes if told.usable_bytes >= 0 else None,
        {
            TopicPartition(topic.name, one.partition_index): one.partition_size
            for topic in told.topics
            for one in topic.partitions
            if not one.is_future_key
        },
    )


async def read_growth(look: Look, draft: Draft) -> Growth:
    """The directories once more, some seconds after the first look."""
    if look.options.sample_seconds <= 0:
        raise NotRead(Gap(WhyNot.NOT_ASKED, "one look was asked for, without a second one after it"))
    await look.need("directories")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(look.options.sample_seconds)
    later = await _directories(look.lane("logs"), draft)
    seconds = loop.time() - began
    moving = await or_error(moves(look.lane("cluster")))
    return Growth(seconds, later, {} if isinstance(moving, ClusterError) else moving)


async def read_offsets(look: Look, draft: Draft) -> dict[TopicPartition, Offsets]:
    """Start, last stable offset and end of every partition with a leader.

    Ends are read after the commits of groups, and starts before: an offset beyond the end, or before the
    start, is so, and not an effect of the order.
    """
    topics: Topics = await look.need("topics")
    live = set((await look.need("cluster")).live())
    client = look.lane("offsets")
    asked = [place for place, one in partitions(topics) if one.leader in live]
    starts = await list_offsets(client, dict.fromkeys(asked, EARLIEST), seconds=LEADER_SECONDS)
    if "groups" in look.wanted:
        await look.have("commits")
    good = [place for place, one in starts.items() if not isinstance(one, ClusterError)]
    failed = [(place, one) for place, one in starts.items() if isinstance(one, ClusterError)]
    if failed and not good:
        raise failed[0][1]
    stables = await list_offsets(client, dict.fromkeys(good, LATEST), committed=True, seconds=LEADER_SECONDS)
    ends = await list_offsets(client, dict.fromkeys(good, LATEST), seconds=LEADER_SECONDS)
    found = {}
    for place in good:
        start, stable, end = starts[place], stables[place], ends[place]
        problem = next((one for one in (start, stable, end) if isinstance(one, ClusterError)), None)
        if problem is not None:
            failed.append((place, problem))
        elif (
            isinstance(start, FoundOffset)
            and isinstance(stable, FoundOffset)
            and isinstance(end, FoundOffset)
        ):
            found[place] = Offsets(start.offset, stable.offset, end.offset)
    tell_failed(failed, "offsets of", draft)
    return found


async def read_first_records(look: Look, draft: Draft) -> dict[TopicPartition, FirstRecord]:
    """The time of the first record of the largest partitions."""
    directories: Directories = await look.need("directories")
    places = _largest(directories, LARGEST)
    found = await list_offsets(look.lane("times"), dict.fromkeys(places, 0), seconds=LEADER_SECONDS)
    good = answered(found, "the first record of", draft)
    return {place: FirstRecord(one.timestamp_ms) for place, one in good.items() if one.timestamp_ms > 0}


def _largest(directories: Directories, most: int) -> list[TopicPartition]:
    sizes: dict[TopicPartition, int] = {}
    for listed in directories.values():
        for each in listed:
            for place, size in each.sizes.items():
                sizes[place] = max(size, sizes.get(place, 0))
    return sorted((place for place in sizes if sizes[place]), key=lambda place: -sizes[place])[:most]


async def read_due(look: Look, draft: Draft) -> DueOffsets:
    """Where retention by time will stand, in the partitions in which a group has records left to read."""
    commits = await look.need("commits")
    offsets: Mapping[TopicPartition, Offsets] = await look.need("offsets")
    settings = await look.need("topic_settings")
    behind = {
        place
        for found in commits.values()
        for place, offset in found.items()
        if place in offsets and offset < offsets[place].end
    }
    now_ms = look.options.now_ms()
    horizons: dict[float, dict[TopicPartition, int]] = {}
    for hours in (look.options.loss_hours / SOON_PART, look.options.loss_hours):
        times = {}
        for place in behind:
            own = settings.get(place.topic, {})
            kept_ms = number_of(own, "retention.ms")
            if kept_ms is None or kept_ms <= 0 or "delete" not in (value_of(own, "cleanup.policy") or ""):
                continue
            ahead_ms = min(hours * HOUR_MS, kept_ms / RETENTION_PART)
            times[place] = round(now_ms - kept_ms + ahead_ms)
        asked = {place: time_ms for place, time_ms in times.items() if time_ms > 0}
        found = await list_offsets(look.lane("times"), asked, seconds=LEADER_SECONDS)
        good = answered(found, "records by time of", draft)
        horizons[hours] = {
            place: one.offset if one.offset >= 0 else offsets[place].end for place, one in good.items()
        }
    return DueOffsets(horizons)


# -- producers and transactions ------------------------------------------------------------------------------


async def read_transactions(look: Look, draft: Draft) -> tuple[OpenTransaction, ...]:
    """The transactions that coordinators know to be open."""
    client = look.lane("transactions")
    request = ListTransactionsRequest(state_filters=list(OPEN_STATES))
    answers: dict[int, ListTransactionsResponse | ClusterError] = {
        broker: refusal(one.error_code, None, f"broker {broker}")
        if not isinstance(one, ClusterError) and one.error_code
        else one
        for broker, one in (await client.ask_all(request, ListTransactionsResponse)).items()
    }
    good = answered(answers, "transactions of broker", draft)
    ids = sorted({one.transactional_id for answer in good.values() for one in answer.transaction_states})
    if len(ids) > MOST_TRANSACTIONS:
        draft.left_out.append(f"{len(ids) - MOST_TRANSACTIONS:,} transactions were not described")
    described = await describe_transactions(client, ids[:MOST_TRANSACTIONS])
    return tuple(
        OpenTransaction(
            one.transactional_id, one.producer_id, one.state, one.timeout_ms, one.start_ms, one.partitions
        )
        for one in described.values()
        if isinstance(one, Transaction)
    )


async def read_hanging(look: Look, draft: Draft) -> tuple[HangingTransaction, ...]:
    """Transactions older than any may be whose coordinator does not know them.

    Only partitions whose last stable offset is below the end are looked into.
    """
    offsets: Mapping[TopicPartition, Offsets] = await look.need("offsets")
    draft.left_out += look.left_out_of("offsets")
    candidates = [place for place, one in offsets.items() if one.stable < one.end]
    if len(candidates) > MOST_CANDIDATES:
        draft.left_out.append(f"{len(candidates) - MOST_CANDIDATES:,} partitions with open transactions")
    client = look.lane("transactions")
    known = answered(await describe_producers(client, candidates[:MOST_CANDIDATES]), "producers of", draft)
    producers = [one for listed in known.values() for one in listed]
    old = old_transactions(producers, round(look.options.now_ms()), await _max_timeout_ms(look))
    if not old:
        return ()
    listed = await list_transactions(client, producer_ids=sorted({one.producer_id for one in old}))
    ids = {one.producer_id: one.transactional_id for one in listed}
    described = await describe_transactions(client, ids.values())
    for one in described.values():
        if isinstance(one, ClusterError) and one.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise one
    return tuple(
        HangingTransaction(one.partition, one.producer_id, one.txn_start_offset, one.last_timestamp_ms)
        for one in hanging_transactions(old, ids, described)
    )


async def _max_timeout_ms(look: Look) -> int:
    """The longest that a transaction may take on any broker; Kafka's default where settings are hidden."""
    settings = await look.have("broker_settings")
    told = [number_of(each, "transaction.max.timeout.ms") for each in (settings or {}).values()]
    return max((one for one in told if one is not None), default=DEFAULT_MAX_TIMEOUT_MS)


async def read_producers(look: Look, draft: Draft) -> dict[TopicPartition, int]:
    """The number of producers that partitions know: the largest ones, or the first."""
    directories = await look.have("directories")
    topics: Topics = await look.need("topics")
    leaders = {place for place, one in partitions(topics) if one.leader >= 0}
    places: Iterable[TopicPartition] = leaders
    if directories is not None:
        places = [place for place in _largest(directories, LARGEST) if place in leaders]
    asked = [place for _, place in zip(range(LOOKED_AT_PRODUCERS), places, strict=False)]
    found = answered(await describe_producers(look.lane("transactions"), asked), "producers of", draft)
    return {place: len(listed) for place, listed in found.items()}
