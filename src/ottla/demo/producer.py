"""Produces the tweets to the topic `tweets`, each exactly once, even over restarts.

Within a run the producer is idempotent: librdkafka sends unacknowledged records again, and the broker drops
those that it has already. Over runs the topic itself is the memory: each start reads which tweets are in it
and produces the others. By then a killed producer has no record in flight: its sockets are closed long before
the next run has started Spark and reads the topic.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.demo.messages import TWEETS, tweet_to_json
from ottla.demo.tweets import Tweet

DELIVERY_TIMEOUT_MS = 60_000
QUEUE_MESSAGES = 10_000
TICK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class TopicTweets:
    """The contents of the topic `tweets`: the ids, the number of repeated ids, and of other records."""

    ids: frozenset[str]
    duplicates: int
    malformed: int


def tweets_in_topic(cluster: KafkaCluster) -> TopicTweets:
    """Read the topic from its start to its end. Raises ClusterError."""
    ids: set[str] = set()
    duplicates = malformed = 0
    for message in cluster.read(TWEETS):
        tweet_id = _tweet_id(message.value())
        if tweet_id is None:
            malformed += 1
        elif tweet_id in ids:
            duplicates += 1
        else:
            ids.add(tweet_id)
    return TopicTweets(frozenset(ids), duplicates, malformed)


def _tweet_id(value: bytes | str | None) -> str | None:
    """The id of a record with all four fields, which the scoring query takes for a tweet; else None."""
    try:
        fields = json.loads(value or b"")
        float(fields["human_score"]), int(fields["posted_at_ms"])
        return fields["id"] if isinstance(fields["id"], str) and isinstance(fields["text"], str) else None
    except (ValueError, TypeError, KeyError):
        return None


class TweetProducer:
    """A thread that produces tweets at a rate until it is done or stopped.

    rate: tweets a second, None for as fast as possible. failure: why it ended early, if it did. Counters may
    be read from any thread.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        tweets: Sequence[Tweet],
        rate: float | None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.acknowledged = 0
        self.failure: str | None = None
        self.total = len(tweets)
        self._tweets = tweets
        self._rate = rate
        self._now_ms = now_ms
        self._stop = threading.Event()
        self._producer = Producer(
            {
                **cluster.producer_options(),
                "client.id": "ottla-demo",
                "linger.ms": 5,
                "compression.type": "lz4",
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "queue.buffering.max.messages": QUEUE_MESSAGES,
            }
        )
        self._thread = threading.Thread(target=self._run, name="tweet-producer", daemon=True)

    @property
    def done(self) -> bool:
        """Whether every tweet is acknowledged."""
        return self.acknowledged == self.total

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Produce no more, and wait for the records in flight and for the thread. Safe to call twice."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        try:
            self._produce_all()
            while len(self._producer) and self.failure is None:
                self._producer.flush(0.2)
        except Exception as error:
            self.failure = self.failure or f"producing to {TWEETS} failed: {error}"

    def _produce_all(self) -> None:
        started = time.monotonic()
        for position, tweet in enumerate(self._tweets):
            if self._rate is not None:
                due = started + position / self._rate
                while (wait := due - time.monotonic()) > 0 and not self._stop.is_set():
                    self._producer.poll(0)
                    self._stop.wait(min(wait, TICK_SECONDS))
            if self._stop.is_set() or self.failure is not None:
                return
            self._produce(tweet)

    def _produce(self, tweet: Tweet) -> None:
        posted_at_ms = self._now_ms()
        value = tweet_to_json(tweet.id, tweet.text, tweet.human_score, posted_at_ms)
        while True:
            try:
                self._producer.produce(
                    TWEETS,
                    value,
                    tweet.id.encode(),
                    timestamp=posted_at_ms,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._producer.poll(0.1)
                continue
            self._producer.poll(0)
            return

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        elif self.failure is None:
            self.failure = f"a tweet was not delivered to {TWEETS}: {error}"


def missing_tweets(tweets: Sequence[Tweet], present: TopicTweets) -> list[Tweet]:
    """The tweets that are not in the topic yet, in order. Raises ClusterError if the topic has one twice."""
    if present.duplicates:
        raise ClusterError(
            f"topic {TWEETS} holds {present.duplicates} tweets more than once: something else writes to it"
        )
    return [tweet for tweet in tweets if tweet.id not in present.ids]
