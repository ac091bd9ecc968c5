"""What a record that can't be worked on becomes in the dead-letter topic: its own bytes, and why.

Headers are named as Connect's DeadLetterQueueReporter names them (KIP-298), so that its users and tools know
them, and their values are texts; `__ottla.node` is ours, the name of the topology's node.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

CONNECT: Final = "__connect.errors."
"""What the names of Kafka Connect's headers begin with."""
NODE_HEADER: Final = "__ottla.node"
KEY_STAGE: Final = "KEY_CONVERTER"
VALUE_STAGE: Final = "VALUE_CONVERTER"
FUNCTION_STAGE: Final = "TRANSFORMATION"
DECODE_ERROR: Final = "ottla.DecodeError"
"""Stands for an exception's class where a record's bytes are not of its format."""
ERROR_FIELDS: Final = ("stage", "exception", "message", "trace")
ERROR_TYPE: Final = "STRUCT<node: STRING, stage: STRING, exception: STRING, message: STRING, trace: STRING>"
"""The type of what befell a record: a node's name, then ERROR_FIELDS."""
MAX_MESSAGE_CHARACTERS: Final = 1_000
MAX_TRACE_CHARACTERS: Final = 8_000
_HEADERS_TYPE: Final = "ARRAY<STRUCT<key STRING, value BINARY>>"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception of a user's function, in texts that fit in headers."""

    class_name: str
    message: str
    stack_trace: str


def failure_of(problem: BaseException, skip_frames: int = 1) -> Failure:
    """What a dead letter tells of an exception; `skip_frames` of ours at the traceback's top are left out."""
    kind = type(problem)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    entry = problem.__traceback__
    for _ in range(skip_frames):
        entry = entry.tb_next if entry is not None and entry.tb_next is not None else entry
    trace = "".join(traceback.format_exception(kind, problem, entry))
    if len(trace) > MAX_TRACE_CHARACTERS:
        half = MAX_TRACE_CHARACTERS // 2
        trace = f"{trace[:half]}\n…\n{trace[-half:]}"
    return Failure(f"{module}{kind.__qualname__}", str(problem)[:MAX_MESSAGE_CHARACTERS], trace)


def dead_letter_columns(origin: Column, error: Column, topic: str) -> Mapping[str, Column]:
    """The sink's columns for a record that `origin` describes and `error` (ERROR_TYPE) befell."""
    from pyspark.sql import functions as F

    said = {
        f"{CONNECT}topic": origin.getField("topic"),
        f"{CONNECT}partition": origin.getField("partition"),
        f"{CONNECT}offset": origin.getField("offset"),
        f"{CONNECT}stage": error.getField("stage"),
        f"{CONNECT}exception.class.name": error.getField("exception"),
        f"{CONNECT}exception.message": error.getField("message"),
        f"{CONNECT}exception.stacktrace": error.getField("trace"),
        NODE_HEADER: error.getField("node"),
    }
    return {
        "topic": F.lit(topic),
        "key": origin.getField("key"),
        "value": origin.getField("value"),
        "timestamp": origin.getField("timestamp"),
        "headers": _with_told(origin.getField("headers"), said),
        "partition": F.lit(None).cast("INT"),
    }


def _with_told(original: Column, said: Mapping[str, Column]) -> Column:
    """The record's own headers, then what is said of it; what is null is not said."""
    from pyspark.sql import functions as F

    told = F.array(
        *(
            F.struct(F.lit(name).alias("key"), F.encode(text.cast("string"), "utf-8").alias("value"))
            for name, text in said.items()
        )
    ).cast(_HEADERS_TYPE)
    own = F.filter(told, lambda header: header.getField("value").isNotNull())
    return F.concat(F.coalesce(original, F.array().cast(_HEADERS_TYPE)), own)
