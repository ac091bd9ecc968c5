"""The report of an exception from Spark: one line, advice, and the whole Python traceback."""

from __future__ import annotations

import pytest

from ottla.pipeline.query.failures import MAX_LINE_CHARACTERS, failure_of

TRACEBACK = """\
Traceback (most recent call last):
  File "/app/words.py", line 7, in explode
    raise ValueError("no word: 'at org.apache'")
ValueError: no word: 'at org.apache'"""


class SparkLike(Exception):
    """As PySpark's exceptions: a description, and the exception that caused it."""

    def __init__(self, description: str, cause: Exception | None = None) -> None:
        super().__init__(f"{description}\n\nJVM stacktrace:\norg.apache.Deep: x\n\tat a.B.c(B.scala:1)")
        self._desc = description
        self._cause = cause


def test_the_innermost_cause_is_the_line() -> None:
    error = SparkLike(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted",
        SparkLike("Job aborted due to stage failure", SparkLike("No space left on device")),
    )
    assert failure_of(error).line == "No space left on device"


def test_a_cause_that_says_nothing_is_passed_over() -> None:
    error = SparkLike("the disk is full", SparkLike("java.lang.NullPointerException", SparkLike("")))
    assert failure_of(error).line == "the disk is full"


def test_a_python_traceback_stays_whole_without_spark_around_it() -> None:
    text = (
        f"org.apache.spark.api.python.PythonException: {TRACEBACK}\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:581)\n"
        "\t... 12 more\n"
    )
    failure = failure_of(SparkLike("Job aborted", SparkLike(text)))
    assert failure.line == "ValueError: no word: 'at org.apache'"
    assert failure.traceback == TRACEBACK


def test_an_exception_that_follows_from_one_of_the_jvm_is_the_line() -> None:
    jvm = "py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n: x.SparkException: rows"
    text = (
        'Traceback (most recent call last):\n  File "sink.py", line 1, in write\n    save()\n'
        f"{jvm}\n\tat x.Y.z(Y.scala:1)\nCaused by: java.io.IOException: No space left\n\t... 73 more\n\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "sink.py", line 2, in write\n    raise\n'
        "app.sink.SinkFailed: IOException: No space left\n\n"
        "\tat py4j.Protocol.getReturnValue(Protocol.java:476)\n\t... 34 more\n"
    )
    failure = failure_of(SparkLike("Job aborted", SparkLike(text)))
    assert failure.line == "SinkFailed: IOException: No space left"
    assert failure.traceback is not None
    assert failure.traceback.startswith("Traceback") and "save()" in failure.traceback
    assert failure.traceback.endswith("app.sink.SinkFailed: IOException: No space left")
    assert "\tat " not in failure.traceback and "Caused by" not in failure.traceback


def test_connect_gives_the_causes_as_text() -> None:
    text = "Job aborted\n\tat x.Y(Z.java)\nCaused by: java.io.IOException: disk\n\tat a.b(C)"
    assert failure_of(SparkLike(text)).line == "IOException: disk"


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match", "made by other code"),
        (
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator",
            "made by other code",
        ),
        (
            "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2]",
            "sources",
        ),
        (
            "Some data may have been lost because they are not available in Kafka any more",
            "fail_on_data_loss",
        ),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log", "stop one of them"),
    ],
)
def test_what_is_known_comes_with_advice(text: str, advice: str) -> None:
    failure = failure_of(SparkLike("Query terminated", SparkLike(text)))
    assert failure.advice is not None
    assert advice in failure.advice
    assert advice in str(failure)


def test_it_is_one_line_of_bounded_length() -> None:
    failure = failure_of(SparkLike("x" * 10_000 + "\nsecond"))
    assert len(failure.line) == MAX_LINE_CHARACTERS
    assert failure_of(ValueError("")).line == "ValueError"
