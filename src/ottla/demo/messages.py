"""The records of the demo's topics: JSON values, keyed by tweet id or by window and sentiment."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

TWEETS = "tweets"
SCORED = "tweets.scored"
COUNTS = "tweets.sentiment.counts"

SENTIMENTS = ("positive", "neutral", "negative")
SIDE_THRESHOLD = 0.05
"""VADER's own threshold: a compound score of at least this is positive, of at most its negative negative."""

TWEET_COLUMNS = "id STRING, text STRING, human_score DOUBLE, posted_at_ms LONG"
SCORED_COLUMNS = TWEET_COLUMNS + ", compound DOUBLE, sentiment STRING"


@dataclass(frozen=True, slots=True)
class ScoredTweet:
    """A tweet with both scores. human_score: -4 to 4. compound: -1 to 1. posted_at_ms: Unix time."""

    id: str
    text: str
    human_score: float
    posted_at_ms: int
    compound: float
    sentiment: str

    def fields(self) -> dict[str, object]:
        return {
            "id": self.id,
            "text": self.text,
            "human_score": self.human_score,
            "posted_at_ms": self.posted_at_ms,
            "compound": self.compound,
            "sentiment": self.sentiment,
        }

    def to_json(self) -> bytes:
        return json.dumps(self.fields(), ensure_ascii=False).encode()


def tweet_to_json(tweet_id: str, text: str, human_score: float, posted_at_ms: int) -> bytes:
    """The value of a record in `tweets`."""
    fields = {"id": tweet_id, "text": text, "human_score": human_score, "posted_at_ms": posted_at_ms}
    return json.dumps(fields, ensure_ascii=False).encode()


def scored_from_json(value: bytes | None) -> ScoredTweet | None:
    """The tweet in a value of `tweets.scored`; None if the value is not a scored tweet."""
    try:
        fields = json.loads(value or b"")
        tweet = ScoredTweet(
            str(fields["id"]),
            str(fields["text"]),
            float(fields["human_score"]),
            int(fields["posted_at_ms"]),
            float(fields["compound"]),
            str(fields["sentiment"]),
        )
    except (ValueError, TypeError, KeyError):
        return None
    return tweet if math.isfinite(tweet.human_score) and math.isfinite(tweet.compound) else None


@dataclass(frozen=True, slots=True)
class WindowCount:
    """The number of tweets of a sentiment that were posted in a window of event time."""

    window_start_ms: int
    sentiment: str
    count: int


def count_from_json(value: bytes | None) -> WindowCount | None:
    """The count in a value of `tweets.sentiment.counts`; None if the value is not a count."""
    try:
        fields = json.loads(value or b"")
        return WindowCount(int(fields["window_start_ms"]), str(fields["sentiment"]), int(fields["count"]))
    except (ValueError, TypeError, KeyError):
        return None
