"""Records that can't be worked on: to a dead-letter topic, by the same exactly-once query as its output.

`decode_records` puts typed keys and values in the place of the bytes and, where that fails, a `failure`
that has the bytes, the stage and the reason. What happens then is the policy's:

    dead_letters("orders.dead")   the original bytes and headers, with headers that say what was wrong
    FAIL                          the batch fails, and says the record's place and the reason
    SKIP                          left out, but counted

For a stateless query `routed` makes one frame of output and dead letters, each row's topic chosen by an
expression: nothing is read or decoded twice, and without failures it costs a comparison a row. A stateful
query takes `good` as its input and writes the union of its output and `dead`, which reads and decodes the
source once more: an aggregate lets nothing pass by it. Both frames are of one source, so both see the same
offsets of a batch.

Every failure is counted by an observed metric, `ottla_dead_letters`, in the progress of the query. The node
that counts also keeps Spark from moving the test for failures below the decoding, which would decode twice.

Headers are named as Connect's DeadLetterQueueReporter names them, and their values are texts.
"""

from __future__ import annotations

import enum
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.pipeline.formats.format import ERROR, VALUE, Format, FormatError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OBSERVATION: Final = "ottla_dead_letters"
"""The observed metric's name in `progress.observedMetrics`; its fields are `dead_letters` and `records`."""
FAILURE: Final = "failure"
FAILURE_TYPE: Final = (
    "STRUCT<stage STRING, class_name STRING, message STRING, stack_trace STRING, key BINARY, value BINARY>"
)
SINK_COLUMNS: Final = ("topic", "key", "value", "headers", "timestamp")
_HEADERS_TYPE: Final = "ARRAY<STRUCT<key STRING, value BINARY>>"
CONNECT: Final = "__connect.errors."
"""What the names of Kafka Connect's headers begin with (KIP-298)."""
DECODE_ERROR: Final = "ottla.DecodeError"
MAX_MESSAGE_CHARACTERS: Final = 1_000
MAX_TRACE_CHARACTERS: Final = 8_000


class Stage(enum.StrEnum):
    """Where a record failed, in Connect's words."""

    KEY = "KEY_CONVERTER"
    VALUE = "VALUE_CONVERTER"
    FUNCTION = "TRANSFORMATION"


class OnFailure(enum.Enum):
    """What happens to a record that fails."""

    DEAD_LETTER = "dead letter"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What happens to records that fail. topic: of the dead letters."""

    on_failure: OnFailure
    topic: str | None = None

    def describe(self) -> str:
        match self.on_failure:
            case OnFailure.DEAD_LETTER:
                return f"dead letters to {self.topic}"
            case OnFailure.FAIL:
                return "a bad record fails the query"
            case OnFailure.SKIP:
                return "bad records are left out and counted"


FAIL: Final = FailurePolicy(OnFailure.FAIL)
SKIP: Final = FailurePolicy(OnFailure.SKIP)


def dead_letters(topic: str) -> FailurePolicy:
    """Records that fail go to `topic`. Raises FormatError for an empty name."""
    if not topic:
        raise FormatError("dead letters need the name of a topic")
    return FailurePolicy(OnFailure.DEAD_LETTER, topic)


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose dead letters these are: an application and one of its queries."""

    application: str
    query: str


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception of a user's function, in the bounded texts of a dead letter."""

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


def decode_records(
    frame: DataFrame, key: Format, value: Format, topic: str | None = None, observation: str = OBSERVATION
) -> DataFrame:
    """Kafka's columns with typed `key` and `value`, and `failure` (FAILURE_TYPE), null for the good.

    topic: the source's where it is one. `observation` must differ for each source of a query. Both formats
    are bound here unless they are already. Raises FormatError.
    """
    from pyspark.sql import functions as F

    of = F.col("topic") if topic is None else topic
    bound_key, bound_value = key.bind(topic, True), value.bind(topic, False)
    others = [name for name in frame.columns if name not in ("key", "value")]
    once = frame.select(
        *others,
        F.col("key").alias("raw_key"),
        F.col("value").alias("raw_value"),
        bound_key.decode(F.col("key"), of, True).alias("key_decoded"),
        bound_value.decode(F.col("value"), of, False).alias("value_decoded"),
    )
    key_error, value_error = F.col(f"key_decoded.{ERROR}"), F.col(f"value_decoded.{ERROR}")
    failed = key_error.isNotNull() | value_error.isNotNull()
    failure = F.struct(
        F.when(key_error.isNotNull(), Stage.KEY.value).otherwise(Stage.VALUE.value).alias("stage"),
        F.lit(DECODE_ERROR).alias("class_name"),
        F.coalesce(key_error, value_error).alias("message"),
        F.lit(None).cast("string").alias("stack_trace"),
        F.col("raw_key").alias("key"),
        F.col("raw_value").alias("value"),
    )
    typed = once.select(
        F.col(f"key_decoded.{VALUE}").alias("key"),
        F.col(f"value_decoded.{VALUE}").alias("value"),
        *others,
        F.when(failed, failure).alias(FAILURE),
    )
    return counted(typed, observation)


def counted(frame: DataFrame, observation: str = OBSERVATION) -> DataFrame:
    """The frame with its failures counted; a later stage counts its own under another name."""
    from pyspark.sql import functions as F

    return frame.observe(
        observation,
        F.count(F.col(FAILURE)).alias("dead_letters"),
        F.count(F.lit(1)).alias("records"),
    )


def good(frame: DataFrame, policy: FailurePolicy) -> DataFrame:
    """The records that did not fail, without `failure`. With FAIL one that did is an error of the batch."""
    from pyspark.sql import functions as F

    failed = F.col(FAILURE).isNotNull()
    if policy.on_failure is OnFailure.FAIL:
        reason = F.concat(
            F.lit("record "),
            *_place(),
            F.lit(" can't be worked on ("),
            F.col(f"{FAILURE}.stage"),
            F.lit("): "),
            F.coalesce(F.col(f"{FAILURE}.message"), F.lit("no reason")),
        )
        kept = F.when(failed, F.raise_error(reason).cast("boolean")).otherwise(F.lit(True))
    else:
        kept = ~failed
    return frame.filter(kept).drop(FAILURE)


def dead(frame: DataFrame, policy: FailurePolicy, origin: Origin) -> DataFrame | None:
    """The dead letters as a sink takes them (SINK_COLUMNS); None where the policy makes none."""
    from pyspark.sql import functions as F

    if policy.on_failure is not OnFailure.DEAD_LETTER:
        return None
    return frame.filter(F.col(FAILURE).isNotNull()).select(*_letter(frame.columns, policy, origin))


def split(frame: DataFrame, policy: FailurePolicy, origin: Origin) -> tuple[DataFrame, DataFrame | None]:
    """`good` and `dead`, for queries with state: what is made of the first is written with the second."""
    return good(frame, policy), dead(frame, policy, origin)


def routed(
    frame: DataFrame,
    output: Sequence[Column],
    policy: FailurePolicy,
    origin: Origin,
) -> DataFrame:
    """One frame for the sink of a stateless query: `output` (SINK_COLUMNS in order) or the dead letter.

    Expressions of `output` see null keys and values where a record failed; they are evaluated for good
    records only where they are Spark's own.
    """
    from pyspark.sql import functions as F

    columns = [column.alias(name) for column, name in zip(output, SINK_COLUMNS, strict=True)]
    if policy.on_failure is not OnFailure.DEAD_LETTER:
        return good(frame, policy).select(*columns)
    failed = F.col(FAILURE).isNotNull()
    letters = _letter(frame.columns, policy, origin)
    return frame.select(
        *(
            F.when(failed, letter).otherwise(column).alias(name)
            for letter, column, name in zip(letters, output, SINK_COLUMNS, strict=True)
        )
    )


def _letter(columns: Sequence[str], policy: FailurePolicy, origin: Origin) -> list[Column]:
    from pyspark.sql import functions as F

    said = {
        f"{CONNECT}topic": F.col("topic"),
        f"{CONNECT}partition": F.col("partition").cast("string"),
        f"{CONNECT}offset": F.col("offset").cast("string"),
        f"{CONNECT}connector.name": F.lit(origin.application),
        f"{CONNECT}stage": F.col(f"{FAILURE}.stage"),
        f"{CONNECT}exception.class.name": F.col(f"{FAILURE}.class_name"),
        f"{CONNECT}exception.message": F.col(f"{FAILURE}.message"),
        f"{CONNECT}exception.stacktrace": F.col(f"{FAILURE}.stack_trace"),
        "__ottla.application": F.lit(origin.application),
        "__ottla.query": F.lit(origin.query),
    }
    original = F.col("headers").cast(_HEADERS_TYPE) if "headers" in columns else None
    headers = with_told(original, said)
    return [
        F.lit(policy.topic).alias("topic"),
        F.col(f"{FAILURE}.key").alias("key"),
        F.col(f"{FAILURE}.value").alias("value"),
        headers.alias("headers"),
        F.col("timestamp").alias("timestamp"),
    ]


def with_told(original: Column | None, said: Mapping[str, Column]) -> Column:
    """A dead letter's headers: the record's own, then what is said of it; what is null is not said."""
    from pyspark.sql import functions as F

    told = F.array(
        *(
            F.struct(F.lit(name).alias("key"), F.encode(text.cast("string"), "utf-8").alias("value"))
            for name, text in said.items()
        )
    ).cast(_HEADERS_TYPE)
    own = F.filter(told, lambda header: header.getField("value").isNotNull())
    if original is None:
        return own
    return F.concat(F.coalesce(original, F.array().cast(_HEADERS_TYPE)), own)


def _place() -> list[Column]:
    from pyspark.sql import functions as F

    return [
        F.col("topic"),
        F.lit("-"),
        F.col("partition").cast("string"),
        F.lit(" at offset "),
        F.col("offset").cast("string"),
    ]
