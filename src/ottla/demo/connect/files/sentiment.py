"""Step 3 of the sample pipeline: each tweet gets its sentiment, from VADER's lexicon.

    ottla streams run sentiment.py

The topics pipeline.tweets and pipeline.scored must exist.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from ottla.demo.scoring import vader
from ottla.streams import Streams


@dataclass(frozen=True)
class Tweet:
    """A tweet, and what people thought of it: -4 (most negative) to 4."""

    id: str
    text: str
    human_score: float
    posted_at_ms: int


@dataclass(frozen=True)
class ScoredTweet:
    """A tweet with VADER's score, -1 to 1, and its side."""

    id: str
    text: str
    human_score: float
    posted_at_ms: int
    compound: float
    sentiment: str


def scored(tweet: Any) -> Any:
    """The tweet with its score."""
    return tweet.value.withField("compound", vader()(tweet.value.text))


def with_side(tweet: Any) -> Any:
    """The tweet with its score and its side."""
    score = tweet.value.compound
    side = F.when(score >= 0.05, "positive").when(score <= -0.05, "negative").otherwise("neutral")
    return tweet.value.withField("sentiment", side)


app = Streams("pipeline-sentiment")

tweets = app.stream("pipeline.tweets", key=str, value=Tweet)
tweets.map_values(scored).map_values(with_side).to("pipeline.scored", key=str, value=ScoredTweet)
