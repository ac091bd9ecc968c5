"""Runs transcripts of group protocol conversations: commands, and below each its results.

    join alice
    ----
    alice join: MEMBER_ID_REQUIRED

    join alice
    ----
    -

A command is a word and its arguments; the lines after ---- are every answer and every append that the
command led to, in order, "-" for none. Members are called by name: a name's member id, its generation and
its group are remembered from its answers, and `name=value` arguments override them. Ids show as name#n,
the n-th id that the coordinator gave out.

    set initial_rebalance_delay_ms=0              settings of the shard, before anything else
    join NAME [version= id= instance= protocols=range:meta,... session= rebalance= type= group= reason=]
    sync NAME [NAME:assignment ...] [generation= protocol= type= id= instance= version=]
    heartbeat NAME | leave NAME... | leave instance=ID
    commit NAME topic-0=5 ... | commit - topic-0=5 ...     as a member, or without membership
    fetch [topic-0 ...] [stable=true]             without topics: all of them
    describe | list [states= types=] | delete-group | delete-offsets topic-0 ...
    advance MILLISECONDS | topic-deleted NAME
    hold | done | fail ERROR                      from `hold` on, appends end one by one as told
    reload                                        another leader loads the log
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from ottla.core.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeleteGroupsResponse
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListGroupsResponse
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_delete_response import OffsetDeleteResponse
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from ottla.protocol.records.group_metadata_key import GroupMetadataKey
from ottla.protocol.records.group_metadata_value import GroupMetadataValue
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from ottla.protocol.records.offset_commit_value import OffsetCommitValue
from ottla.protocol.schema import Message
from support.core.group_shard import ShardDriver

TRANSCRIPT_DIRECTORY = Path(__file__).parents[2] / "unit" / "groups" / "transcripts"
GENERATED_ID = re.compile(r"([\w.]+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{12})")


@dataclass
class Person:
    """A client's knowledge of its membership."""

    member_id: str = ""
    generation: int = -1
    protocol: str = "range"


class Transcript:
    """Runs the commands of one transcript against one shard."""

    def __init__(self) -> None:
        self._settings = GroupSettings(initial_rebalance_delay_ms=0)
        self._driver = ShardDriver(self._settings)
        self._people: dict[str, Person] = {}
        self._labels: dict[int, tuple[str, str]] = {}
        """request id -> (who, what)"""
        self._shown_replies = 0
        self._shown_records = 0

    def run(self, text: str) -> str:
        """The transcript with the real output; equal to `text` if all is as expected."""
        out: list[str] = []
        lines = iter(text.splitlines())
        for line in lines:
            if not line.strip() or line.startswith("#"):
                out.append(line)
                continue
            out.append(line)
            self._command(line)
            for skipped in lines:
                if not skipped.strip():
                    break
            out += ["----", *(self._output() or ["-"]), ""]
        return "\n".join(out).rstrip() + "\n"

    # Commands

    def _command(self, line: str) -> None:
        verb, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        method = getattr(self, "_do_" + verb.replace("-", "_"))
        method(names, options)

    def _do_set(self, names: list[str], options: dict[str, str]) -> None:
        known = {field.name: getattr(self._settings, field.name) for field in fields(GroupSettings)}
        self._settings = GroupSettings(**{**known, **{key: int(value) for key, value in options.items()}})
        self._driver = ShardDriver(self._settings)

    def _do_join(self, names: list[str], options: dict[str, str]) -> None:
        who = self._person(names[0])
        if "id" in options:
            who.member_id = self._member_id(options["id"])
        protocols = [each.partition(":") for each in options.get("protocols", "range:").split(",") if each]
        session = int(options.get("session", 10_000))
        self._send(
            names[0],
            JoinGroupRequest(
                group_id=options.get("group", "g"),
                session_timeout_ms=session,
                rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
                member_id=who.member_id,
                group_instance_id=options.get("instance"),
                protocol_type=options.get("type", "consumer"),
                protocols=[
                    JoinGroupRequestProtocol(name=name, metadata=_metadata(metadata))
                    for name, _, metadata in protocols
                ],
                reason=options.get("reason"),
            ),
            int(options.get("version", 9)),
        )

    def _do_sync(self, names: list[str], options: dict[str, str]) -> None:
        who = self._person(names[0])
        self._send(
            names[0],
            SyncGroupRequest(
                group_id=options.get("group", "g"),
                generation_id=int(options.get("generation", who.generation)),
                member_id=self._member_id(options["id"]) if "id" in options else who.member_id,
                group_instance_id=options.get("instance"),
                protocol_type=options.get("type", "consumer") or None,
                protocol_name=options.get("protocol", who.protocol) or None,
                assignments=[
                    SyncGroupRequestAssignment(
                        member_id=self._person(name).member_id, assignment=text.encode()
                    )
                    for name, _, text in (word.partition(":") for word in names[1:])
                ],
            ),
            int(options.get("version", 5)),
        )

    def _do_heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        who = self._person(names[0])
        self._send(
            names[0],
            HeartbeatRequest(
                group_id=options.get("group", "g"),
                generation_id=int(options.get("generation", who.generation)),
                member_id=self._member_id(options["id"]) if "id" in options else who.member_id,
                group_instance_id=options.get("instance"),
            ),
            4,
        )

    def _do_leave(self, names: list[str], options: dict[str, str]) -> None:
        leavers = [MemberIdentity(member_id=self._person(name).member_id) for name in names]
        if "instance" in options:
            leavers.append(MemberIdentity(member_id="", group_instance_id=options["instance"]))
        request = LeaveGroupRequest(group_id=options.get("group", "g"), members=leavers)
        self._send(" ".join(names) or "admin", request, 5)

    def _do_commit(self, names: list[str], options: dict[str, str]) -> None:
        who = Person() if names[0] == "-" else self._person(names[0])
        settings = {key: options.pop(key) for key in ("generation", "version", "metadata") if key in options}
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for key, value in options.items():
            topic, _, partition = key.rpartition("-")
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=int(partition),
                    committed_offset=int(value),
                    committed_metadata=settings.get("metadata"),
                )
            )
        self._send(
            names[0],
            OffsetCommitRequest(
                group_id="g",
                generation_id_or_member_epoch=int(settings.get("generation", who.generation)),
                member_id=who.member_id,
                topics=[
                    OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()
                ],
            ),
            int(settings.get("version", 9)),
        )

    def _do_fetch(self, names: list[str], options: dict[str, str]) -> None:
        topics: dict[str, list[int]] = {}
        for name in names:
            topic, _, partition = name.rpartition("-")
            topics.setdefault(topic, []).append(int(partition))
        wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=at) for topic, at in topics.items()]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted or None)],
            require_stable="stable" in options,
        )
        self._send("-", request, 9)

    def _do_describe(self, names: list[str], options: dict[str, str]) -> None:
        self._send("-", DescribeGroupsRequest(groups=names or ["g"]), int(options.get("version", 6)))

    def _do_list(self, names: list[str], options: dict[str, str]) -> None:
        states, types = options.get("states", ""), options.get("types", "")
        self._send(
            "-",
            ListGroupsRequest(
                states_filter=[each for each in states.split(",") if each],
                types_filter=[each for each in types.split(",") if each],
            ),
            5,
        )

    def _do_delete_group(self, names: list[str], options: dict[str, str]) -> None:
        self._send("-", DeleteGroupsRequest(groups_names=names or ["g"]), 2)

    def _do_delete_offsets(self, names: list[str], options: dict[str, str]) -> None:
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for name in names:
            topic, _, partition = name.rpartition("-")
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=int(partition)))
        request = OffsetDeleteRequest(
            group_id="g",
            topics=[OffsetDeleteRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        self._send("-", request, 0)

    def _do_advance(self, names: list[str], options: dict[str, str]) -> None:
        self._driver.advance(int(names[0]))

    def _do_topic_deleted(self, names: list[str], options: dict[str, str]) -> None:
        self._driver.topic_deleted(names[0])

    def _do_hold(self, names: list[str], options: dict[str, str]) -> None:
        self._driver.hold_appends = True

    def _do_done(self, names: list[str], options: dict[str, str]) -> None:
        self._driver.append_done()

    def _do_fail(self, names: list[str], options: dict[str, str]) -> None:
        self._driver.append_failed(ErrorCode[names[0]])

    def _do_reload(self, names: list[str], options: dict[str, str]) -> None:
        self._driver.reload()

    def _send(self, who: str, request: Message, version: int) -> None:
        what = type(request).__name__.removesuffix("Request")
        what = {"JoinGroup": "join", "SyncGroup": "sync", "LeaveGroup": "leave"}.get(what, what.lower())
        # The shard may answer before `send` returns, so the label goes in under the id to come.
        self._labels[len(self._driver.requests)] = who, what
        self._driver.send(request, version, client_id=who)

    def _person(self, name: str) -> Person:
        return self._people.setdefault(name, Person())

    def _member_id(self, text: str) -> str:
        """`new` for none; another person's name for theirs; anything else as it is."""
        if text == "new":
            return ""
        return self._people[text].member_id if text in self._people else text

    # Output

    def _output(self) -> list[str]:
        driver = self._driver
        answered = driver.answered[self._shown_replies :]
        lines = [self._show_reply(request_id, driver.replies[request_id]) for request_id in answered]
        self._shown_replies = len(driver.answered)
        lines += [_show_record(record.key, record.value) for record in driver.log[self._shown_records :]]
        self._shown_records = len(driver.log)
        return [GENERATED_ID.sub(lambda found: f"{found[1]}#{int(found[2], 16)}", line) for line in lines]

    def _show_reply(self, request_id: int, reply: Message) -> str:
        who, what = self._labels[request_id]
        head = what if who == "-" else f"{who} {what}"
        match reply:
            case JoinGroupResponse():
                self._remember_join(who, reply)
                body = _show_join(reply)
            case SyncGroupResponse():
                body = _error(reply.error_code) or f"assignment={bytes(reply.assignment).decode()!r}"
            case HeartbeatResponse():
                body = _error(reply.error_code) or "ok"
            case LeaveGroupResponse():
                body = _error(reply.error_code) or " ".join(
                    _error(each.error_code) or "ok" for each in reply.members
                )
            case OffsetCommitResponse():
                body = " ".join(
                    f"{topic.name}-{each.partition_index}={_error(each.error_code) or 'ok'}"
                    for topic in reply.topics
                    for each in topic.partitions
                )
            case OffsetDeleteResponse():
                body = _error(reply.error_code) or " ".join(
                    f"{topic.name}-{each.partition_index}={_error(each.error_code) or 'ok'}"
                    for topic in reply.topics
                    for each in topic.partitions
                )
            case OffsetFetchResponse():
                body = " ".join(_show_fetched(group) for group in reply.groups)
            case DescribeGroupsResponse():
                described = sorted(reply.groups, key=lambda group: str(group.group_id))
                body = " ".join(_show_described(group) for group in described)
            case ListGroupsResponse():
                listed = sorted(reply.groups, key=lambda group: group.group_id)
                body = " ".join(f"{each.group_id}:{each.group_state}:{each.group_type}" for each in listed)
            case DeleteGroupsResponse():
                body = " ".join(
                    f"{each.group_id}={_error(each.error_code) or 'ok'}" for each in reply.results
                )
            case _:
                raise TypeError(type(reply).__name__)
        return f"{head}: {body}".rstrip()

    def _remember_join(self, who: str, reply: JoinGroupResponse) -> None:
        person = self._person(who)
        if reply.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            person.member_id = reply.member_id
        if reply.error_code == ErrorCode.NONE:
            person.generation = reply.generation_id
            person.protocol = reply.protocol_name


def run_file(path: Path) -> tuple[str, str]:
    """(the expected transcript in `path`, the real one)."""
    expected = path.read_text(encoding="utf-8")
    return expected, Transcript().run(expected)


def _metadata(text: str) -> bytes:
    """`a+b` as the consumer protocol's subscription to topics a and b; the empty text as no bytes."""
    if not text:
        return b""
    topics = [topic for topic in text.split("+") if topic]
    parts = [b"\x00\x03", len(topics).to_bytes(4, "big")]
    for topic in topics:
        parts += [len(topic).to_bytes(2, "big"), topic.encode()]
    return b"".join([*parts, b"\xff\xff\xff\xff"])


def _error(code: int) -> str:
    return "" if code == ErrorCode.NONE else ErrorCode(code).name


def _show_join(reply: JoinGroupResponse) -> str:
    if reply.error_code:
        return _error(reply.error_code)
    shown = f"generation={reply.generation_id} id={reply.member_id} leader={reply.leader}"
    shown += f" protocol={reply.protocol_name}"
    if reply.members:
        shown += f" members={','.join(each.member_id for each in reply.members)}"
    return shown + (" skip_assignment" if reply.skip_assignment else "")


def _show_fetched(group: object) -> str:
    found = [
        f"{topic.name}-{each.partition_index}={_error(each.error_code) or each.committed_offset}"
        + (f"({each.metadata})" if each.metadata else "")
        for topic in group.topics
        for each in topic.partitions
    ]
    return _error(group.error_code) or " ".join(found) or "nothing"


def _show_described(group: object) -> str:
    members = "".join(
        f" {each.member_id}={bytes(each.member_assignment).decode()!r}" for each in group.members
    )
    shown = f"{group.group_state} {group.protocol_type}/{group.protocol_data}{members}"
    return f"{_error(group.error_code)} {shown}".strip()


def _show_record(key: Message, value: Message | None) -> str:
    match key, value:
        case OffsetCommitKey(), OffsetCommitValue():
            return f"> {key.group} {key.topic}-{key.partition}={value.offset}"
        case OffsetCommitKey(), None:
            return f"> {key.group} {key.topic}-{key.partition} deleted"
        case GroupMetadataKey(), GroupMetadataValue():
            members = "".join(
                f" {each.member_id}={bytes(each.assignment).decode()!r}" for each in value.members
            )
            return f"> {key.group} generation={value.generation} leader={value.leader}{members}"
        case GroupMetadataKey(), None:
            return f"> {key.group} deleted"
    raise TypeError(type(key).__name__)
