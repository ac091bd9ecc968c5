"""Why a Spark query failed, in one line: the root cause behind Spark's stack traces, with advice if known.

The traceback of a user's own Python function is kept whole beside the line. A failure is *transient* where a
process of Python's did not start in time, or died: on a busy machine the next start may do. An exception of a
function is none, whatever its words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MAX_LINE_CHARACTERS = 500
MAX_CAUSES = 50
_TRACEBACK = "Traceback (most recent call last):"
_JAVA_FRAME = re.compile(r"^\s+at [\w.$<>/]+\(|^\s*\.\.\. \d+ more$|^\s*Caused by: |^JVM stacktrace:")
_CHAINED = re.compile(
    r"^(?:The above exception was the direct cause of|During handling of the above exception, another)"
)
_JAVA_CLASS = re.compile(r"^(?:[a-z_][\w]*\.)+([A-Z][\w$]*)(?::\s*|$)")
_CAUSED_BY = re.compile(r"^Caused by: (.*)$", re.MULTILINE)

_OTHER_CODE = (
    "the state in its checkpoint was made by other code: keep the checkpoint and give the changed query a "
    "new name, or reset it to begin again"
)
_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"STATE_STORE_(KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_SCHEMA_NOT_COMPATIBLE|STATE_STORE_\w*SCHEMA"
            r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH|STATEFUL_PROCESSOR_.*(SCHEMA|MISMATCH)|STATE_STORE_\w*"
            r"COLUMN_FAMILY_SCHEMA|schema of state"
        ),
        _OTHER_CODE,
    ),
    (
        re.compile(r"There are \[\d+\] sources in the checkpoint|STREAMING_SOURCE\w*MISMATCH"),
        "its checkpoint was made with other sources: keep the checkpoint and give the changed query a "
        "new name, or reset it to begin again",
    ),
    (
        re.compile(
            r"data may have been lost|KAFKA_DATA_LOSS|were aged out|fewer topic partitions than before"
        ),
        "records that it had not read are gone from the topic: reset it, or set fail_on_data_loss=False to "
        "go on behind the gap",
    ),
    (
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using"),
        "another run of this query uses the same checkpoint: stop one of them",
    ),
    (
        re.compile(r"UnknownTopicOrPartitionException|UNKNOWN_TOPIC_OR_PART"),
        "a topic that it uses does not exist any more",
    ),
)
_TRANSIENT = re.compile(
    r"Timed out while waiting for the Python worker|Python worker failed to connect back"
    r"|Python worker exited unexpectedly|Python daemon failed to launch worker"
    r"|Failed to open socket to Python daemon|Python worker process terminated"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """The cause in one line; advice, if known; the Python traceback of a user's function, if it raised.

    transient: another start may do.
    """

    line: str
    advice: str | None = None
    traceback: str | None = None
    transient: bool = False

    def __str__(self) -> str:
        return f"{self.line} ({self.advice})" if self.advice else self.line


def failure_of(error: BaseException) -> Failure:
    """The failure behind an exception that PySpark raised or a query ended with."""
    texts = _texts(error)
    everything = "\n".join(texts)
    advice = next((advice for pattern, advice in _ADVICE if pattern.search(everything)), None)
    for text in reversed(texts):
        traceback = _python_traceback(text)
        if traceback is not None:
            return Failure(_one_line(_last_line(traceback)), advice, traceback)
    return Failure(
        _one_line(_first_cause(texts)), advice, transient=_TRANSIENT.search(everything) is not None
    )


def _texts(error: BaseException) -> list[str]:
    """The texts of the exception and its causes, outermost first, without the JVM's stack frames."""
    texts: list[str] = []
    current: Any = error
    while current is not None and len(texts) < MAX_CAUSES:
        # PySpark's own text of an exception includes the JVM's stack frames.
        description = getattr(current, "_desc", None)
        texts.append(str(current) or type(current).__name__ if description is None else str(description))
        current = getattr(current, "_cause", None) or getattr(current, "__cause__", None)
    return texts


def _python_traceback(text: str) -> str | None:
    """A traceback without the JVM's frames, which stand behind it and in messages within it."""
    begin = text.find(_TRACEBACK)
    if begin < 0:
        return None
    lines: list[str] = []
    in_java = False
    for line in text[begin:].splitlines():
        if _CHAINED.match(line):
            in_java = False
            lines.append("")
        in_java = in_java or _JAVA_FRAME.match(line) is not None
        if not in_java:
            lines.append(line)
    return "\n".join(lines).strip()


def _last_line(traceback: str) -> str:
    """The line with the exception's type and message, and the further lines of that message."""
    lines = traceback.splitlines()
    own = [line for line in lines[1:] if line and not line[0].isspace() and not line.startswith(_TRACEBACK)]
    raised: list[str] = [line for line in own if re.match(r"[\w.]+(: |$)", line)]
    return (raised or own or lines)[-1]


def _first_cause(texts: list[str]) -> str:
    """The innermost cause that has a message."""
    for text in reversed(texts):
        caused_by: list[str] = _CAUSED_BY.findall(text)  # Spark Connect gives the causes as text alone
        for candidate in (*reversed(caused_by), text):
            line = (candidate.strip().splitlines() or [""])[0].strip()
            if line and not re.fullmatch(r"(?:[\w$]+\.)+[\w$]+", line) and line != "None":
                return line
    return (texts[-1].strip().splitlines() or ["no reason given"])[0]


def _one_line(text: str) -> str:
    match = _JAVA_CLASS.match(text)
    if match is not None:
        text = f"{match[1]}: {text[match.end() :]}".removesuffix(": ")
    return text if len(text) <= MAX_LINE_CHARACTERS else text[: MAX_LINE_CHARACTERS - 1] + "…"
