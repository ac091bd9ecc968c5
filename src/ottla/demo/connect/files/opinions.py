"""Step 6 of the sample pipeline, its second stage: tweets with a strong opinion, for another store.

    ottla streams run opinions.py

The topics pipeline.documents and pipeline.opinions must exist.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from ottla.streams import Streams

STRONG = 0.5


@dataclass(frozen=True)
class StoredTweet:
    """What the second stage reads of a document."""

    id: str
    text: str
    compound: float
    sentiment: str


@dataclass(frozen=True)
class Opinion:
    """A tweet with a strong opinion. strength: 0.5 to 1."""

    id: str
    text: str
    sentiment: str
    strength: float


def opinion(tweet: Any) -> Any:
    """The opinion of a tweet."""
    fields = tweet.value
    return F.struct(fields.id, fields.text, fields.sentiment, F.abs(fields.compound).alias("strength"))


app = Streams("pipeline-opinions")

documents = app.stream("pipeline.documents", key=str, value=StoredTweet)
strong = documents.filter(lambda tweet: F.abs(tweet.value.compound) >= STRONG)
strong.map_values(opinion).to("pipeline.opinions", key=str, value=Opinion)
