"""The context of a trace: read from headers, written into headers, known while a request is handled.

W3C Trace Context: `traceparent: 00-<trace id>-<parent span id>-<flags>` and, of any vendor, `tracestate`.
Records carry them in headers of the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MAX_STATE_CHARACTERS: Final = 512
"""A longer tracestate is left out, as the standard allows."""
_SAMPLED: Final = 1
_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

RecordHeaders = list[tuple[str, str | bytes | None]]


class TraceContext(NamedTuple):
    """A span of a trace, to be the parent of others. The ids are in hexadecimal."""

    trace_id: str
    span_id: str
    flags: int
    state: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the trace is recorded."""
        return bool(self.flags & _SAMPLED)

    @property
    def traceparent(self) -> str:
        """The header's value."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags & _SAMPLED:02x}"


def parse_traceparent(text: str, state: str = "") -> TraceContext | None:
    """The context in headers' values; None for one that is malformed, which counts as none."""
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    usable = len(state) <= MAX_STATE_CHARACTERS and state.isascii() and state.isprintable()
    return TraceContext(trace_id, span_id, int(flags, 16), state if usable else "")


_current: ContextVar[TraceContext | None] = ContextVar("ottla trace context", default=None)


def current_context() -> TraceContext | None:
    """The context of the request under way in this task or thread; None where nothing is traced."""
    return _current.get()


@contextmanager
def within(context: TraceContext) -> Iterator[None]:
    """The context is the current one for the length of the block."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def trace_headers(context: TraceContext) -> RecordHeaders:
    """The headers of a record that belongs to a trace."""
    headers: RecordHeaders = [(TRACEPARENT, context.traceparent.encode())]
    if context.state:
        headers.append((TRACESTATE, context.state.encode()))
    return headers


def with_trace(
    headers: Sequence[tuple[str, str | bytes | None]] | None, added: RecordHeaders
) -> RecordHeaders:
    """A record's headers with those of a trace; a record that names its own trace keeps it."""
    own = list(headers or ())
    return own if any(name == TRACEPARENT for name, _ in own) else [*own, *added]


def request_headers() -> dict[str, str]:
    """The headers that make a request which is sent now part of the trace; none where nothing is traced."""
    context = _current.get()
    if context is None:
        return {}
    headers = {TRACEPARENT: context.traceparent}
    if context.state:
        headers[TRACESTATE] = context.state
    return headers
