"""Quotas of clients, set and described, in a conversation: transcripts/ has Apache Kafka's answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_client_quotas_request as alter
from ottla.protocol.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from support.clients.transcript import Transcript
from support.clients.wire import WireClient, wait_for
from support.servers.cluster import Cluster

Begin = Callable[[str], Transcript]
Entity = tuple[tuple[str, str | None], ...]
PRODUCE, CONSUME, TIME = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATIONS, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"
EXACT, DEFAULT, SPECIFIED = range(3)
#: More than any test uses: the node serves other tests too.
PLENTY = 1e9


def entry(entity: Entity, *changes: tuple[str, float | None]) -> alter.EntryData:
    """Changes of an entity; the value None removes."""
    return alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[alter.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes],
    )


def components(*wanted: tuple[str, int, str | None]) -> list[ComponentData]:
    return [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in wanted]


def sorted_parts(response: Any) -> None:
    """The transcript sorts lists of one level only by their text, which has them sorted within."""
    for each in response.entries or ():
        each.entity.sort(key=lambda part: part.entity_type)


def test_setting_and_describing_quotas(transcript: Begin, cluster: Cluster) -> None:
    talk = transcript("client_quotas")
    me = talk.prefix

    def change(*entries: alter.EntryData, version: int = 1, **fields: Any) -> None:
        talk.say(alter.AlterClientQuotasRequest(entries=list(entries), **fields), version, sorted_parts)

    marks = itertools.count(1)

    def settle() -> None:
        """Wait until the broker shows the changes so far: Apache Kafka answers before it does."""
        mark = float(next(marks))
        marker = (("client-id", f"{me}-marker"),)
        talk.wire.call(alter.AlterClientQuotasRequest(entries=[entry(marker, (MUTATIONS, mark * PLENTY))]))
        shown = DescribeClientQuotasRequest(components=components(("client-id", EXACT, marker[0][1])))

        def is_shown() -> bool:
            found = talk.wire.call(shown).entries
            return bool(found) and found[0].values[0].value == mark * PLENTY

        wait_for(is_shown)

    def describe(*wanted: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> None:
        settle()
        request = DescribeClientQuotasRequest(components=components(*wanted), strict=strict)
        talk.say(request, version, sorted_parts)

    user, client = (("user", me),), (("client-id", me),)
    both = (("user", me), ("client-id", f"{me}-app"))
    user_and_any_client = (("user", me), ("client-id", None))
    talk.title("every version")
    change(entry(user, (PRODUCE, PLENTY)), version=0)
    change(entry(client, (CONSUME, PLENTY), (TIME, 12345.5)), version=1)
    describe(("user", EXACT, me), version=0)
    describe(("client-id", EXACT, me), version=1)
    talk.title("several at once, changed and removed")
    change(
        entry(user, (PRODUCE, PLENTY + 1), (CONSUME, None)),
        entry(both, (MUTATIONS, 10000.5)),
        entry(user_and_any_client, (PRODUCE, PLENTY)),
    )
    describe(("user", EXACT, me))
    describe(("user", EXACT, me), strict=True)
    describe(("user", EXACT, me), ("client-id", EXACT, f"{me}-app"))
    describe(("user", EXACT, me), ("client-id", DEFAULT, None))
    describe(("user", EXACT, me), ("client-id", SPECIFIED, None))
    change(entry(user, (PRODUCE, None)), entry(client, (CONSUME, None)))
    describe(("user", EXACT, me), strict=True)
    describe(("client-id", EXACT, me))
    talk.title("a dry run")
    change(entry(user, (PRODUCE, PLENTY)), entry(client, (PRODUCE, 0.0)), validate_only=True)
    describe(("user", EXACT, me), strict=True)
    talk.title("addresses")
    change(entry((("ip", "203.0.113.7"),), (CONNECTIONS, 1000.0)))
    describe(("ip", EXACT, "203.0.113.7"))
    change(entry((("ip", "203.0.113.7"),), (CONNECTIONS, None)))
    describe(("ip", EXACT, "203.0.113.7"))
    change(entry((("ip", "localhost"),), (CONNECTIONS, None)))
    change(entry((("ip", "no-such-host.invalid"),), (CONNECTIONS, 1.0)))
    change(entry((("ip", "203.0.113.7"),), (PRODUCE, 1.0)))
    change(entry((("ip", "203.0.113.7"), ("user", me)), (CONNECTIONS, 1.0)))
    for value in (0.0, 1.5, 2.0**31):
        change(entry((("ip", "203.0.113.7"),), (CONNECTIONS, value)))
    talk.title("entities and keys that there are not")
    change(entry((("planet", "mars"),), (PRODUCE, 1.0)))
    change(entry((("user", ""),), (PRODUCE, 1.0)))
    change(entry((), (PRODUCE, 1.0)))
    change(entry(user, ("bytes", 1.0)))
    change(entry(user, ("bytes", None)))
    change(entry(user))
    talk.title("values")
    for key, value in [(PRODUCE, 0.0), (PRODUCE, -1.0), (PRODUCE, 1.5), (PRODUCE, 1e30), (TIME, 0.0)]:
        change(entry(user, (key, value)))
    change(entry(user, (CONSUME, PLENTY), (PRODUCE, 0.0)))
    describe(("user", EXACT, me), strict=True)
    talk.title("twice in one request")
    change(entry(user, (PRODUCE, PLENTY), (PRODUCE, PLENTY + 1)))
    change(entry(user, (PRODUCE, PLENTY)), entry(user, (CONSUME, PLENTY)))
    describe(("user", EXACT, me), strict=True)
    talk.title("filters that make no sense")
    describe(("", EXACT, me))
    describe(("planet", EXACT, me))
    describe(("user", EXACT, None))
    describe(("user", DEFAULT, me))
    describe(("user", SPECIFIED, me))
    describe(("user", 3, None))
    describe(("user", EXACT, me), ("user", DEFAULT, None))
    describe(("ip", EXACT, "203.0.113.7"), ("user", EXACT, me))
    talk.title("the end")
    change(
        entry(user, (PRODUCE, None), (CONSUME, None)),
        entry(client, (TIME, None)),
        entry(both, (MUTATIONS, None)),
        entry(user_and_any_client, (PRODUCE, None)),
    )
    describe(("user", EXACT, me))
    change()


def test_more_changes_than_one_request_may_have_are_refused(cluster: Cluster, unique_name: str) -> None:
    entries = [entry((("user", f"{unique_name}-{number}"),), (PRODUCE, PLENTY)) for number in range(10_001)]
    with WireClient.connect(cluster.bootstrap) as wire:
        answer = wire.call(alter.AlterClientQuotasRequest(entries=entries), 1)
        assert {each.error_code for each in answer.entries} == {ErrorCode.POLICY_VIOLATION}
        described = wire.call(
            DescribeClientQuotasRequest(components=components(("user", EXACT, f"{unique_name}-0")))
        )
        assert described.entries == []
