"""Checks of replicas: partitions without a leader, with too few in sync, with too few altogether."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from ottla.client.cluster_requests import TopicPartition
from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, some, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import PartitionView, Snapshot, number_of, partitions

MIN_ISR: Final = "min.insync.replicas"
USUAL_FACTOR: Final = 3
"""Replicas of internal topics that Kafka's own defaults ask for."""


def _offline(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    live = set(snapshot.cluster.get().live())
    found = {
        place: one
        for place, one in partitions(snapshot.topics.get())
        if one.leader < 0 or one.leader not in live
    }
    lost = [place for place, one in found.items() if live.isdisjoint(one.replicas)]
    behind = [place for place in found if place not in set(lost)]
    if lost:
        brokers = sorted({broker for place in lost for broker in found[place].replicas})
        yield Finding(
            Severity.CRITICAL,
            f"{_have(lost)} no leader, as none of their brokers is there: nothing is written or read",
            texts(lost),
            f"start the brokers that have the replicas: {named(brokers)}",
        )
    if behind:
        yield Finding(
            Severity.CRITICAL,
            f"{_have(behind)} no leader, as no replica in sync is there: nothing is written or read",
            texts(behind),
            "start the brokers that were in sync; only if they are gone for good elect what is there, which "
            "loses the records that it lacks",
            _elect("unclean", behind),
        )


def _elect(kind: str, places: list[TopicPartition]) -> str:
    """The election in one topic's partitions: the command takes no more."""
    topic = places[0].topic
    words: list[object] = ["partition", "elect", kind, "--topic", topic]
    for place in some([one.partition for one in places if one.topic == topic]):
        words += ["--partition", place]
    return line(*words)


def _have(places: list[TopicPartition], verb: str = "has", verbs: str = "have") -> str:
    return f"{counted(len(places), 'partition')} {verb if len(places) == 1 else verbs}"


def _under_replicated(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    live = set(snapshot.cluster.get().live())
    moves = snapshot.moves.value or {}
    found: list[TopicPartition] = []
    missing: Counter[int] = Counter()
    for place, one in partitions(snapshot.topics.get()):
        adding = moves[place].adding if place in moves else ()
        if len(one.isr) < _factor(one, adding):
            found.append(place)
            missing.update(set(one.replicas) - set(one.isr) - set(adding))
    if not found:
        return
    away = sorted(broker for broker in missing if broker not in live)
    slow = sorted(broker for broker in missing if broker in live)
    reasons = [f"broker {named(away)} not there"] * bool(away)
    reasons += [f"replicas behind on broker {named(slow)}"] * bool(slow)
    gone = set(away) - snapshot.cluster.get().brokers.keys()
    yield Finding(
        Severity.WARNING,
        f"{_have(found)} fewer replicas in sync than replicas: {'; '.join(reasons)}",
        texts(found),
        f"start broker {named(away)} again, or move its replicas if it is gone for good"
        if away
        else f"look into the disk, the network and the log of broker {named(slow)}",
        line("partition", "reassign", "--from", away[0]) if gone or away else None,
    )


def _factor(one: PartitionView, adding: tuple[int, ...]) -> int:
    return len(one.replicas) - sum(1 for node in adding if node in one.replicas)


def _min_isr_of(snapshot: Snapshot) -> Callable[[TopicPartition], int | None]:
    settings = snapshot.topic_settings.get()

    def of(place: TopicPartition) -> int | None:
        return number_of(settings.get(place.topic, {}), MIN_ISR)

    return of


def _under_min_isr(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    min_isr = _min_isr_of(snapshot)
    found = [
        place
        for place, one in partitions(snapshot.topics.get())
        if len(one.isr) < (min_isr(place) or 0) and one.leader >= 0
    ]
    if not found:
        return
    small = [place for place in found if _replicas(snapshot, place) < (min_isr(place) or 0)]
    if small:
        topics = sorted({place.topic for place in small})
        yield Finding(
            Severity.CRITICAL,
            f"{_have(small)} fewer replicas than min.insync.replicas: acks=all can never be written",
            texts(small),
            "give the topics more replicas, or a smaller min.insync.replicas",
            line("topic", "alter", *some(topics), "--delete-config", MIN_ISR),
        )
    others = [place for place in found if place not in set(small)]
    if others:
        yield Finding(
            Severity.CRITICAL,
            f"{_have(others)} fewer replicas in sync than min.insync.replicas: producers with acks=all are "
            "refused",
            texts(others),
            "bring the missing brokers back; until then a smaller min.insync.replicas lets producers write, "
            "with fewer copies",
            line("topic", "alter", *some(sorted({one.topic for one in others})), "--config", f"{MIN_ISR}=1"),
        )


def _replicas(snapshot: Snapshot, place: TopicPartition) -> int:
    return next(
        len(one.replicas)
        for one in snapshot.topics.get()[place.topic].partitions
        if one.index == place.partition
    )


def _at_min_isr(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    min_isr = _min_isr_of(snapshot)
    found = [
        place
        for place, one in partitions(snapshot.topics.get())
        if one.leader >= 0 and len(one.isr) == min_isr(place) and len(one.isr) < len(one.replicas)
    ]
    if found:
        yield Finding(
            Severity.WARNING,
            f"{_have(found)} just min.insync.replicas in sync: with one broker less, producers with acks=all "
            "are refused",
            texts(found),
            "bring the missing replicas back; the list tells which they are",
            line("topic", "describe", "--at-min-isr"),
        )


def _min_isr_equals_replicas(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    settings = snapshot.topic_settings.get()
    found = []
    for name, topic in snapshot.topics.get().items():
        least = min((len(one.replicas) for one in topic.partitions), default=0)
        if least > 1 and (number_of(settings.get(name, {}), MIN_ISR) or 0) == least:
            found.append((name, least))
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'topic')} {'has' if len(found) == 1 else 'have'} min.insync.replicas "
            "equal "
            "to the replication factor: a restart of one broker stops producers with acks=all",
            texts(name for name, _ in found),
            "let one replica less be enough",
            line(
                "topic",
                "alter",
                *some(n for n, _ in found),
                "--config",
                f"{MIN_ISR}={max(1, found[0][1] - 1)}",
            ),
        )


def _single_replica(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    brokers = len(snapshot.cluster.get().brokers)
    if brokers < 2:
        return
    moves = snapshot.moves.value or {}
    found = [
        name
        for name, topic in snapshot.topics.get().items()
        if not topic.internal
        and any(
            len(one.replicas) == 1 and TopicPartition(name, one.index) not in moves
            for one in topic.partitions
        )
    ]
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'topic')} {'has' if len(found) == 1 else 'have'} one replica of each "
            "record, "
            f"though there are {brokers} brokers: they are gone while, or when, one broker is",
            texts(found),
            "give the topics more replicas",
            line(
                *("partition", "reassign", "--topic", found[0]),
                *("--replication-factor", min(USUAL_FACTOR, brokers)),
            ),
        )


def _internal_topics(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    brokers = len(snapshot.cluster.get().brokers)
    others = Counter(
        len(one.replicas)
        for topic in snapshot.topics.get().values()
        if not topic.internal
        for one in topic.partitions
    )
    usual = max(others, key=lambda factor: (others[factor], factor)) if others else USUAL_FACTOR
    wanted = min(brokers, max(usual, USUAL_FACTOR))
    found = [
        name
        for name, topic in snapshot.topics.get().items()
        if topic.internal and any(len(one.replicas) < wanted for one in topic.partitions)
    ]
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'internal topic')} with fewer than {wanted} replicas: offsets of groups "
            "and "
            "transactions are less safe than the records",
            texts(found),
            "give them as many replicas as the cluster's topics have",
            line("partition", "reassign", "--topic", found[0], "--replication-factor", wanted),
        )


def _racks(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    brokers = snapshot.cluster.get().brokers
    racks = {one.rack for one in brokers.values()}
    if None in racks:
        without = sorted(one.node_id for one in brokers.values() if one.rack is None)
        if len(racks) > 1:
            yield Finding(
                Severity.WARNING,
                f"broker {named(without)} without broker.rack, though others have one: replicas are not "
                "spread "
                "over racks",
                texts(without),
                "set broker.rack in the server.properties of these brokers and restart them",
            )
        return
    if len(racks) < 2:
        return
    found = [
        place
        for place, one in partitions(snapshot.topics.get())
        if len({brokers[node].rack for node in one.replicas if node in brokers})
        < min(len(one.replicas), len(racks))
    ]
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'partition')} with replicas in fewer racks than possible: a rack that "
            "fails takes more than one",
            texts(found),
            "spread the replicas anew; the placement of `ottla partition reassign` knows racks",
            line("partition", "reassign", "--topic", found[0].topic),
        )


def _missing_brokers(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    cluster = snapshot.cluster.get()
    if not cluster.tells_fenced:
        return
    missing: Counter[int] = Counter(
        node
        for _, one in partitions(snapshot.topics.get())
        for node in one.replicas
        if node not in cluster.brokers
    )
    for node, count in sorted(missing.items()):
        yield Finding(
            Severity.CRITICAL,
            f"{counted(count, 'replica')} on broker {node}, which the cluster does not know any more",
            (str(node),),
            "move the replicas to brokers that are there",
            line("partition", "reassign", "--from", node),
        )


CHECKS: Final = (
    Check(
        "offline-partitions",
        Severity.CRITICAL,
        "partitions without a leader",
        ("cluster", "topics"),
        _offline,
    ),
    Check(
        "under-min-isr",
        Severity.CRITICAL,
        "partitions with fewer replicas in sync than min.insync.replicas",
        ("topics", "topic_settings"),
        _under_min_isr,
    ),
    Check(
        "missing-brokers",
        Severity.CRITICAL,
        "replicas on brokers that are not registered",
        ("cluster", "topics"),
        _missing_brokers,
    ),
    Check(
        "under-replicated",
        Severity.WARNING,
        "partitions with fewer replicas in sync than replicas",
        ("cluster", "topics"),
        _under_replicated,
        also=("moves",),
    ),
    Check(
        "at-min-isr",
        Severity.WARNING,
        "partitions with just min.insync.replicas in sync, some replicas missing",
        ("topics", "topic_settings"),
        _at_min_isr,
    ),
    Check(
        "min-isr-equals-replicas",
        Severity.WARNING,
        "topics whose min.insync.replicas is their replication factor",
        ("topics", "topic_settings"),
        _min_isr_equals_replicas,
    ),
    Check(
        "single-replica",
        Severity.WARNING,
        "topics of one replica in a cluster of several brokers",
        ("cluster", "topics"),
        _single_replica,
        also=("moves",),
    ),
    Check(
        "internal-topics",
        Severity.WARNING,
        "internal topics with fewer replicas than the cluster could give them",
        ("cluster", "topics"),
        _internal_topics,
    ),
    Check(
        "racks",
        Severity.WARNING,
        "replicas not spread over racks, brokers without one",
        ("cluster", "topics"),
        _racks,
    ),
)
