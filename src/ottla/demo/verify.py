"""Checks that every tweet arrived in every topic and store exactly once, by reading them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ottla.client.cluster import KafkaCluster
from ottla.demo.agreement import Agreement
from ottla.demo.messages import COUNTS, SCORED, SENTIMENTS, TWEETS, count_from_json, scored_from_json
from ottla.demo.producer import tweets_in_topic
from ottla.demo.query import SCORING_GROUP
from ottla.pipeline.stores import DocumentStore, SearchIndex


@dataclass(frozen=True, slots=True)
class Verification:
    """The result. problems: a sentence for each topic or store that is wrong; empty if all are right.

    read: records of `tweets` that the scoring group has committed. counted: tweets in the last count of every
    window and sentiment.
    """

    tweets: int
    read: int
    scored: int
    stored: int
    indexed: int
    counted: int
    sentiments: dict[str, int]
    sign_percent: float | None
    pearson_r: float | None
    problems: tuple[str, ...]

    @property
    def exactly_once(self) -> bool:
        return not self.problems


def verify(
    cluster: KafkaCluster, documents: DocumentStore, index: SearchIndex, expected: Iterable[str]
) -> Verification:
    """Read all topics and stores back and compare them with `expected` and with the ids in `tweets`.

    Raises ClusterError or StoreError if one of them can't be read.
    """
    topic = tweets_in_topic(cluster)
    wanted = set(expected) | topic.ids
    agreement, scored, sentiments = Agreement(), Counter[str](), Counter[str]()
    for message in cluster.read(SCORED):
        tweet = scored_from_json(message.value())
        if tweet is None:
            continue
        scored[tweet.id] += 1
        sentiments[tweet.sentiment] += 1
        agreement.add(tweet.human_score, tweet.compound)
    stored, indexed = Counter(documents.ids()), Counter(index.ids())
    counted = _counted(cluster)
    problems = [
        *_compare(f"topic {TWEETS}", Counter(topic.ids), wanted, topic.duplicates),
        *_compare(f"topic {SCORED}", scored, wanted),
        *_compare(documents.name, stored, wanted),
        *_compare(index.name, indexed, wanted),
    ]
    problems += [
        f"topic {COUNTS} counts {counted[name]} {name} tweets, {SCORED} has {sentiments[name]}"
        for name in SENTIMENTS
        if counted[name] != sentiments[name]
    ]
    return Verification(
        tweets=len(topic.ids),
        read=_read(cluster),
        scored=scored.total(),
        stored=stored.total(),
        indexed=indexed.total(),
        counted=counted.total(),
        sentiments={sentiment: sentiments[sentiment] for sentiment in SENTIMENTS},
        sign_percent=agreement.sign_percent,
        pearson_r=agreement.pearson_r,
        problems=tuple(problems),
    )


def _compare(place: str, found: Counter[str], wanted: set[str], more_duplicates: int = 0) -> list[str]:
    problems = []
    missing = sorted(wanted - found.keys())
    surplus = sorted(found.keys() - wanted)
    duplicates = found.total() - len(found) + more_duplicates
    if missing:
        problems.append(f"{place} lacks {len(missing)} tweets (the first: {missing[0]})")
    if surplus:
        problems.append(f"{place} has {len(surplus)} that are not in {TWEETS} (the first: {surplus[0]})")
    if duplicates:
        problems.append(f"{place} has {duplicates} duplicates")
    return problems


def _counted(cluster: KafkaCluster) -> Counter[str]:
    """Tweets by sentiment in the counts topic, from the last record of each window and sentiment."""
    last = {}
    for message in cluster.read(COUNTS):
        count = count_from_json(message.value())
        if count is not None:
            last[count.window_start_ms, count.sentiment] = count.count
    counted: Counter[str] = Counter()
    for (_, sentiment), tweets in last.items():
        counted[sentiment] += tweets
    return counted


def _read(cluster: KafkaCluster) -> int:
    committed = cluster.committed(SCORING_GROUP, TWEETS)
    start = cluster.start_positions(TWEETS)
    return sum(max(0, committed.get(partition, 0) - first) for partition, first in start.items())
