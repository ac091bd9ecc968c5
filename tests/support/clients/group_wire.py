"""Runs group transcripts against a real broker: every person in them is a connection.

Transcripts that depend on the clock, on the log or on the other groups of a shared broker can't be run this
way; see `can_run`. The answers to several people for one command come in any order, and ids are random, so
both sides are brought to one form (`comparable`) before they are compared.
"""

from __future__ import annotations

import re
import selectors
from collections.abc import Iterator
from contextlib import ExitStack

from ottla.protocol.headers import decode_response
from ottla.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ottla.protocol.messages.list_groups_response import ListGroupsResponse
from ottla.protocol.schema import Message
from support.clients.wire import TIMEOUT_S, WireClient
from support.core.group_transcripts import Transcript

QUIET_S = 0.15
"""How long an answer that should not come is waited for."""
IN_MEMORY_ONLY = re.compile(r"^(set|advance|hold|done|fail|reload|topic-deleted)\b", re.MULTILINE)
UUID = re.compile(r"\b([\w.]+)-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")


def can_run(transcript: str) -> bool:
    """Whether a real broker can play its part."""
    return IN_MEMORY_ONLY.search(transcript) is None


def is_ours_alone(transcript: str) -> bool:
    """Whether Apache Kafka is known to answer otherwise; the transcript's first line says so, and why."""
    return transcript.startswith("# Unlike Apache Kafka")


class WireDriver:
    """The part of `ShardDriver` that a transcript without special powers needs, over sockets."""

    def __init__(self, bootstrap: str, group: str, stack: ExitStack) -> None:
        self.requests: dict[int, Message] = {}
        self.replies: dict[int, Message] = {}
        self.answered: list[int] = []
        self.log: list[object] = []
        self._bootstrap = bootstrap
        self._group = group
        self._stack = stack
        self._selector = stack.enter_context(selectors.DefaultSelector())

    def send(self, request: Message, version: int, client_id: str = "client") -> int:
        """Send on a connection of its own: earlier ones may still wait for their answers."""
        request_id = len(self.requests)
        self.requests[request_id] = request
        _rename_group(request, "g", self._group)
        client = self._stack.enter_context(WireClient.connect(self._bootstrap, client_id))
        client.send(request, version)
        waiting = (client, request_id, version)
        self._selector.register(client.connection, selectors.EVENT_READ, waiting)
        return request_id

    def wait_for(self, answers: int) -> None:
        """Until so many more answers are there; when none should come, for QUIET_S to see that."""
        end = len(self.answered) + answers
        while len(self.answered) < end:
            assert self._receive(TIMEOUT_S), f"{end - len(self.answered)} answers did not come"
        while answers == 0 and self._receive(QUIET_S):
            pass

    def _receive(self, timeout_s: float) -> bool:
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            client, request_id, version = key.data
            self._selector.unregister(client.connection)
            api_key = self.requests[request_id].API_KEY
            _, reply = decode_response(api_key, version, client.receive_frame())
            _restore_group(reply, self._group)
            self.replies[request_id] = reply
            self.answered.append(request_id)
        return bool(ready)


class WireTranscript(Transcript):
    """A transcript whose coordinator is a broker."""

    def __init__(self, bootstrap: str, group: str, expected: str, stack: ExitStack) -> None:
        super().__init__()
        self._driver = WireDriver(bootstrap, group, stack)  # type: ignore[assignment]
        self._expected_answers: Iterator[int] = iter(
            [
                sum(not line.startswith((">", "-")) for line in lines.splitlines())
                for lines in re.findall(r"^----\n((?:.+\n)*)", expected, re.MULTILINE)
            ]
        )

    def _output(self) -> list[str]:
        self._driver.wait_for(next(self._expected_answers))  # type: ignore[attr-defined]
        return super()._output()


def comparable(transcript: str) -> str:
    """Without records, each command's answers in one order, ids numbered by appearance."""
    text = UUID.sub(r"\1#\2", re.sub(r"^> .*\n", "", transcript, flags=re.MULTILINE))
    text = re.sub(r"members=(\S+)", _in_order, text)
    text = re.sub(r"(?<=^deletegroups: ).+", _words_in_order, text, flags=re.MULTILINE)
    text = re.sub(r"^----\n(?=\n|\Z)", "----\n-\n", text, flags=re.MULTILINE)
    sorted_text = re.sub(
        r"(?<=^----\n)((?:.+\n)+)",
        lambda found: "".join(
            sorted(found[1].splitlines(True), key=lambda line: re.sub(r"#[\w-]+", "", line))
        ),
        text,
        flags=re.MULTILINE,
    )
    numbers: dict[str, dict[str, int]] = {}

    def renumber(found: re.Match[str]) -> str:
        of_name = numbers.setdefault(found[1], {})
        return f"{found[1]}#{of_name.setdefault(found[2], len(of_name) + 1)}"

    return re.sub(r"\b([\w.]+)#([\w-]+)", renumber, sorted_text)


def _words_in_order(words: re.Match[str]) -> str:
    return " ".join(sorted(words[0].split()))


def _in_order(members: re.Match[str]) -> str:
    """`members=b#1,a#1` sorted; the leader is named beside it."""
    return "members=" + ",".join(sorted(members[1].split(","), key=_without_ids))


def _without_ids(line: str) -> str:
    return re.sub(r"#[\w-]+", "", line)


def _rename_group(request: Message, old: str, new: str) -> None:
    """Give the request's groups names that no other test has: `g` becomes `new`, others get it in front."""

    def renamed(name: str) -> str:
        return new if name == old else f"{new}-{name}"

    if getattr(request, "group_id", ""):
        request.group_id = renamed(request.group_id)  # type: ignore[attr-defined]
    if hasattr(request, "groups_names"):
        request.groups_names = [renamed(name) for name in request.groups_names]
    groups = getattr(request, "groups", None) or []
    if groups and isinstance(groups[0], str):
        request.groups = [renamed(name) for name in groups]  # type: ignore[attr-defined]
    for group in groups:
        if not isinstance(group, str):
            group.group_id = renamed(group.group_id)


def _restore_group(reply: Message, group: str) -> None:
    """The reverse of `_rename_group`; groups of other tests are removed from an answer to ListGroups."""

    def restored(name: str) -> str:
        return "g" if name == group else name.removeprefix(f"{group}-")

    if isinstance(reply, ListGroupsResponse):
        reply.groups = [each for each in reply.groups if each.group_id.startswith(group)]
    for each in getattr(reply, "groups", ()):
        each.group_id = restored(each.group_id)
    if isinstance(reply, DeleteGroupsResponse):
        for result in reply.results:
            result.group_id = restored(result.group_id)
