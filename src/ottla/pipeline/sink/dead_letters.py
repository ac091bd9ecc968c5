"""Dead letters: a record that can't be processed, with its own bytes and headers that say why.

The headers are named as Connect's DeadLetterQueueReporter names them (KIP-298), so that its users and tools
know them, and their values are texts. `__ottla.node` is an addition: the name of the topology's node.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

CONNECT: Final = "__connect.errors."
"""The prefix of the names of Kafka Connect's headers."""
NODE_HEADER: Final = "__ottla.node"
KEY_STAGE: Final = "KEY_CONVERTER"
VALUE_STAGE: Final = "VALUE_CONVERTER"
FUNCTION_STAGE: Final = "TRANSFORMATION"
DECODE_ERROR: Final = "ottla.DecodeError"
"""Stands for the class of an exception if a record's bytes are not of its format."""
ERROR_FIELDS: Final = ("stage", "exception", "message", "trace")
ERROR_TYPE: Final = "STRUCT<node: STRING, stage: STRING, exception: STRING, message: STRING, trace: STRING>"
"""The type of a record's error: the name of the node, then ERROR_FIELDS."""
MAX_MESSAGE_CHARACTERS: Final = 1_000
MAX_TRACE_CHARACTERS: Final = 8_000
_HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception of a user's function, as texts that fit into headers."""

    class_name: str
    message: str
    stack_trace: str


def failure_of(problem: BaseException, skip_frames: int = 1) -> Failure:
    """An exception as a dead letter tells it, without the first `skip_frames` frames, which are ottla's."""
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


def dead_letter_columns(origin: str, error: str, topic: str) -> Mapping[str, Column]:
    """The sink's columns for a dead letter, from the columns `origin` (its record) and `error` (ERROR_TYPE).

    The record's own headers come first; null values get no header.
    """
    from pyspark.sql import functions as F

    said = {
        f"{CONNECT}topic": f"{origin}.topic",
        f"{CONNECT}partition": f"{origin}.partition",
        f"{CONNECT}offset": f"{origin}.offset",
        f"{CONNECT}stage": f"{error}.stage",
        f"{CONNECT}exception.class.name": f"{error}.exception",
        f"{CONNECT}exception.message": f"{error}.message",
        f"{CONNECT}exception.stacktrace": f"{error}.trace",
        NODE_HEADER: f"{error}.node",
    }
    # As SQL text: built by functions, each of its hundred parts would be a call of the JVM, 0.1 s in all.
    told = ", ".join(
        f"named_struct('key', '{name}', 'value', encode(CAST({field} AS STRING), 'utf-8'))"
        for name, field in said.items()
    )
    headers = (
        f"concat(coalesce({origin}.headers, CAST(array() AS {_HEADERS_TYPE})), "
        f"filter(CAST(array({told}) AS {_HEADERS_TYPE}), header -> header.value IS NOT NULL))"
    )
    return {
        "topic": F.lit(topic),
        "key": F.col(f"{origin}.key"),
        "value": F.col(f"{origin}.value"),
        "timestamp": F.col(f"{origin}.timestamp"),
        "headers": F.expr(headers),
        "partition": F.lit(None).cast("INT"),
    }
