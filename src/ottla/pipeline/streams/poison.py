"""What a poison record becomes in the dead-letter topic: its own bytes, and headers that say what happened.

The headers are those of Kafka Connect (KIP-298), so that its users and tools know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.pipeline.dead_letters import CONNECT, with_told

if TYPE_CHECKING:
    from pyspark.sql import Column


def dead_letter_columns(origin: Column, error: Column, topic: str) -> Mapping[str, Column]:
    """The sink's columns for a record that `origin` describes and `error` befell (see stateless.py)."""
    from pyspark.sql import functions as F

    said = {
        f"{CONNECT}topic": origin.getField("topic"),
        f"{CONNECT}partition": origin.getField("partition"),
        f"{CONNECT}offset": origin.getField("offset"),
        f"{CONNECT}stage": error.getField("stage"),
        f"{CONNECT}exception.class.name": error.getField("exception"),
        f"{CONNECT}exception.message": error.getField("message"),
        f"{CONNECT}exception.stacktrace": error.getField("trace"),
    }
    return {
        "topic": F.lit(topic),
        "key": origin.getField("key"),
        "value": origin.getField("value"),
        "timestamp": origin.getField("timestamp"),
        "headers": with_told(origin.getField("headers"), said),
        "partition": F.lit(None).cast("INT"),
    }
