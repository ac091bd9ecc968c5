"""Reads the page's figures as any user could: from the output topics, and from the groups' lag.

Two threads. One follows `tweets.scored` and `tweets.sentiment.counts` from their start and keeps sums, the
last few tweets and windows; the other asks for the groups' lag once a second. The figures are only shown: no
decision depends on them, and while the broker is away the threads try again.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass

from confluent_kafka import Message

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.demo.agreement import Agreement
from ottla.demo.messages import (
    COUNTS,
    SCORED,
    TWEETS,
    ScoredTweet,
    count_from_json,
    scored_from_json,
)
from ottla.demo.query import COUNTING_GROUP, SCORING_GROUP

LAST_TWEETS = 8
LAST_WINDOWS = 12
LAG_INTERVAL_SECONDS = 1.0
STOP_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The figures so far. windows: each window's start (Unix ms) and its counts, the latest last.

    The lags are None until they are known.
    """

    scored: int
    sentiments: dict[str, int]
    last_tweets: tuple[ScoredTweet, ...]
    windows: tuple[tuple[int, dict[str, int]], ...]
    sign_percent: float | None
    pearson_r: float | None
    scoring_lag: int | None
    counting_lag: int | None


class Monitor:
    """Follows the pipeline's outputs until it is stopped."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._sentiments: Counter[str] = Counter()
        self._last_tweets: deque[ScoredTweet] = deque(maxlen=LAST_TWEETS)
        self._windows: dict[int, dict[str, int]] = {}
        self._agreement = Agreement()
        self._scoring_lag: int | None = None
        self._counting_lag: int | None = None
        self._threads = [
            threading.Thread(target=self._follow_topics, name="topic-monitor", daemon=True),
            threading.Thread(target=self._follow_lag, name="lag-monitor", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop both threads. Safe to call twice."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_TIMEOUT_SECONDS)

    def seen(self) -> Seen:
        """A consistent copy of the figures so far."""
        with self._lock:
            return Seen(
                self._sentiments.total(),
                dict(self._sentiments),
                tuple(self._last_tweets),
                tuple((start, dict(self._windows[start])) for start in sorted(self._windows)),
                self._agreement.sign_percent,
                self._agreement.pearson_r,
                self._scoring_lag,
                self._counting_lag,
            )

    def _follow_topics(self) -> None:
        consumer = self._cluster.follow([SCORED, COUNTS])
        try:
            while not self._stop.is_set():
                messages = consumer.consume(500, timeout=0.1)
                with self._lock:
                    for message in messages:
                        if message.error() is None:
                            self._take(message)
        finally:
            consumer.close()

    def _take(self, message: Message) -> None:
        if message.topic() == SCORED:
            tweet = scored_from_json(message.value())
            if tweet is not None:
                self._sentiments[tweet.sentiment] += 1
                self._last_tweets.append(tweet)
                self._agreement.add(tweet.human_score, tweet.compound)
            return
        count = count_from_json(message.value())
        if count is not None:
            self._windows.setdefault(count.window_start_ms, {})[count.sentiment] = count.count
            if len(self._windows) > LAST_WINDOWS:
                del self._windows[min(self._windows)]

    def _follow_lag(self) -> None:
        while not self._stop.wait(LAG_INTERVAL_SECONDS):
            try:
                scoring = self._cluster.lag(SCORING_GROUP, TWEETS)
                counting = self._cluster.lag(COUNTING_GROUP, SCORED)
            except ClusterError:
                continue
            with self._lock:
                self._scoring_lag, self._counting_lag = scoring, counting
