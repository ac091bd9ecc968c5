"""Conversations with a broker as text: recorded from Apache Kafka, replayed and compared with any broker.

A line `> Name vN …` is a request, the line `< …` below it the response; with several clients each has a name
before these signs, and an answer may come later. Fields with their default value are left out, so a response
without any other field is `< ok`. Names, ids and ports, which differ from run to run, have stand-ins.
Error messages are a broker's own and left out, as is the order of lists (many come out of hash tables).

`pytest tests/conformance --oracle-only --record` writes the texts again from Apache Kafka's answers.
"""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message, Struct
from support.clients.wire import WireClient

DIRECTORY = Path(__file__).parents[2] / "conformance" / "transcripts"
LEFT_OUT = {"throttle_time_ms", "error_message", "log_dir", "host"}
STAND_INS = {"port": "<port>", "cluster_id": "<cluster>", "usable_bytes": "<bytes>", "total_bytes": "<bytes>"}
LONGEST_SHOWN = 200
MEMBER_ID = re.compile(r"[\w.-]+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(slots=True)
class Transcript:
    """A conversation under way. Names that begin with `prefix` are this conversation's own."""

    wire: WireClient
    prefix: str
    lines: list[str] = field(default_factory=list)
    _asked: dict[str, tuple[WireClient, Message, int, int]] = field(default_factory=dict)
    _members: dict[str, str] = field(default_factory=dict)
    _topic_ids: dict[uuid.UUID, str] = field(default_factory=dict)

    def title(self, text: str) -> None:
        self.lines += ["", f"# {text}"]

    def say(
        self, request: Message, version: int | None = None, keep: Callable[[Any], None] | None = None
    ) -> Any:
        """Send a request, write both down, return the response. `keep` may cut other clients' parts."""
        self.ask("", self.wire, request, version)
        return self.answer("", keep)

    def ask(self, who: str, wire: WireClient, request: Message, version: int | None = None) -> None:
        """Send a request as `who`, whose answer comes later: other things may be said meanwhile."""
        assert request.API_KEY is not None
        api = APIS[ApiKey(request.API_KEY)]
        chosen = api.latest_stable_version if version is None else version
        self.lines.append(f"{who}> {api.name} v{chosen} {self._fields(request, sort=False)}".rstrip())
        self._asked[who] = (wire, request, wire.send(request, chosen), chosen)

    def answer(self, who: str, keep: Callable[[Any], None] | None = None) -> Any:
        """Wait for the answer to the request of `who`, and write it down."""
        wire, request, correlation_id, version = self._asked.pop(who)
        response = wire.receive(request, correlation_id, version)
        if keep is not None:
            keep(response)
        self.lines.append(f"{who}< {self._fields(response, sort=True) or 'ok'}")
        return response

    def check(self, name: str, record: bool) -> None:
        """Compare with the recorded text, or record it."""
        path = DIRECTORY / f"{name}.txt"
        text = "\n".join(self.lines).strip() + "\n"
        if record:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        recorded = path.read_text(encoding="utf-8")
        changes = difflib.unified_diff(
            recorded.splitlines(), text.splitlines(), "Apache Kafka", "this broker", lineterm="", n=1
        )
        assert text == recorded, "\n".join(changes)

    def _fields(self, struct: Struct, sort: bool) -> str:
        default = type(struct)()
        parts = []
        for each in struct.FIELDS:
            value = getattr(struct, each.name)
            if each.name in LEFT_OUT or value == getattr(default, each.name):
                continue
            if each.name in STAND_INS:
                parts.append(f"{each.name}={STAND_INS[each.name]}")
            elif each.name.endswith("error_code"):
                parts.append(f"{each.name}={ErrorCode(value).name}")
            else:
                parts.append(f"{each.name}={self._value(value, sort)}")
        return " ".join(parts)

    def _value(self, value: Any, sort: bool) -> str:
        if isinstance(value, Struct):
            return "{" + self._fields(value, sort) + "}"
        if isinstance(value, list):
            items = [self._value(item, sort) for item in value]
            return "[" + " ".join(sorted(items) if sort else items) + "]"
        if isinstance(value, uuid.UUID):
            if value not in self._topic_ids:
                self._topic_ids[value] = f"<id {len(self._topic_ids) + 1}>"
            return self._topic_ids[value]
        if isinstance(value, bytes | memoryview):
            return repr(bytes(value).replace(self.prefix.encode(), b"my"))[1:]
        if isinstance(value, str):
            if len(value) > LONGEST_SHOWN:
                return f"{value[:1]}...({len(value)})"
            named = MEMBER_ID.sub(self._member, value).replace(self.prefix, "my")
            return named if re.fullmatch(r"[\w.<> -]*\S", named) and " " not in named[:1] else repr(named)
        return str(value)

    def _member(self, match: re.Match[str]) -> str:
        if match[0] not in self._members:
            self._members[match[0]] = f"<member {len(self._members) + 1}>"
        return self._members[match[0]]
