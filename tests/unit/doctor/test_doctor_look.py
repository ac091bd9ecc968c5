"""The look at a cluster: bounded in time, and errors of parts stay with their parts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.doctor.reading.drafts import Draft, answered, gap_of
from ottla.doctor.reading.listeners import _advertised
from ottla.doctor.reading.look import Look, LookOptions, Reader
from ottla.doctor.reading.metrics import samples
from ottla.doctor.snapshot import BrokerView, Gap, NotRead, Setting, Snapshot, WhyNot
from ottla.protocol.errors import ErrorCode
from support.doctor.drawn import sound

ACCESS = ClusterAccess("127.0.0.1:1")


async def cluster(look: Look, draft: Draft) -> Any:
    return sound().cluster.get()


def looked(readers: Mapping[str, Reader], *names: str, seconds: float = 10.0) -> Snapshot:
    look = Look(ACCESS, LookOptions(seconds=seconds), {"cluster": cluster, **readers})
    return asyncio.run(look.snapshot(names))


def test_parts_that_are_too_late_are_told_and_others_are_there() -> None:
    async def late(look: Look, draft: Draft) -> Any:
        await asyncio.Event().wait()

    async def growing(look: Look, draft: Draft) -> Any:
        draft.value = {"a": 1}
        await asyncio.Event().wait()

    async def topics(look: Look, draft: Draft) -> Any:
        return {}

    snapshot = looked(
        {"topics": topics, "quorum": late, "groups": growing}, "topics", "quorum", "groups", seconds=0.2
    )
    assert snapshot.topics.get() == {}
    assert snapshot.quorum.gap == Gap(WhyNot.OUT_OF_TIME, "the time was over")
    assert (snapshot.groups.value, snapshot.groups.left_out) == ({"a": 1}, ("the time was over",))


def test_an_error_ends_its_part_and_those_that_need_it() -> None:
    async def topics(look: Look, draft: Draft) -> Any:
        raise ClusterError("no right", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def offsets(look: Look, draft: Draft) -> Any:
        return await look.need("topics")

    async def groups(look: Look, draft: Draft) -> Any:
        return [await look.have("topics")]

    snapshot = looked({"topics": topics, "offsets": offsets, "groups": groups}, "offsets", "groups")
    gap = Gap(WhyNot.NOT_ALLOWED, "no right")
    assert snapshot.offsets.gap == snapshot.topics.gap == gap
    assert snapshot.groups.get() == [None]


def test_a_part_that_several_need_is_read_once() -> None:
    read = []

    async def topics(look: Look, draft: Draft) -> Any:
        read.append("topics")
        await asyncio.sleep(0)
        return {}

    async def needing(look: Look, draft: Draft) -> Any:
        return await look.need("topics") or [1]

    looked({"topics": topics, "offsets": needing, "groups": needing}, "topics", "offsets", "groups")
    assert read == ["topics"]


def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    async def silent(look: Look, draft: Draft) -> Any:
        raise ClusterError("nobody answers")

    with pytest.raises(UserError, match="nobody answers"):
        looked({"cluster": silent}, "cluster")


def test_a_fault_of_our_own_is_raised() -> None:
    async def broken(look: Look, draft: Draft) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        looked({"topics": broken}, "topics")


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (ClusterError("x", ErrorCode.CLUSTER_AUTHORIZATION_FAILED), WhyNot.NOT_ALLOWED),
        (ClusterError("x", ErrorCode.UNSUPPORTED_VERSION), WhyNot.NOT_OFFERED),
        (ClusterError("x", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED), WhyNot.NOT_OFFERED),
        (ClusterError("x"), WhyNot.FAILED),
        (OSError("x"), WhyNot.FAILED),
        (TimeoutError(), WhyNot.OUT_OF_TIME),
        (NotRead(Gap(WhyNot.NOT_ASKED, "x")), WhyNot.NOT_ASKED),
    ],
)
def test_errors_say_why_a_part_was_not_read(problem: Exception, why: WhyNot) -> None:
    assert gap_of(problem).why is why


def test_answers_and_errors_are_told_apart() -> None:
    draft = Draft()
    problem = ClusterError("broker 2 is silent")
    refused = ClusterError("no", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert answered({1: "a", 2: problem, 3: refused, 4: refused}, "settings of broker", draft) == {1: "a"}
    assert draft.left_out == [
        "settings of broker 3 and 1 more: not allowed",
        "settings of broker 2: broker 2 is silent",
    ]
    with pytest.raises(ClusterError, match="silent"):
        answered({1: problem}, "settings of broker", draft)


def listeners(**values: str) -> list[tuple[str, str, str, str, bool]]:
    settings = {name.replace("_", "."): Setting(value, "DEFAULT") for name, value in values.items()}
    broker = BrokerView(1, "kafka-1", 9092, None)
    return [
        (one.name, one.protocol, one.bound, str(one.advertised), one.ours)
        for one in _advertised(broker, settings)
    ]


def test_listeners_are_read_from_the_settings() -> None:
    assert listeners(listeners="PLAINTEXT://:9092") == [
        ("PLAINTEXT", "PLAINTEXT", "0.0.0.0", "kafka-1:9092", True)
    ]
    assert listeners(
        listeners="INTERNAL://10.0.0.1:9092,EXTERNAL://[::]:9093,CONTROLLER://:9094",
        advertised_listeners="INTERNAL://kafka-1:9092,EXTERNAL://kafka.example:443",
        listener_security_protocol_map="INTERNAL:SASL_PLAINTEXT,EXTERNAL:SSL,CONTROLLER:SSL",
        controller_listener_names="CONTROLLER",
    ) == [
        ("INTERNAL", "SASL_PLAINTEXT", "10.0.0.1", "kafka-1:9092", True),
        ("EXTERNAL", "SSL", "::", "kafka.example:443", False),
    ]
    assert listeners(listeners="CONTROLLER://:9094", controller_listener_names="CONTROLLER") == []
    assert listeners() == []


def test_metrics_pages_are_read() -> None:
    page = "\n".join(
        (
            "# HELP requests Requests.",
            "# TYPE requests counter",
            'requests_total{acks="1",topic="a\\"b"} 7 1700000000000',
            "up 1",
            "broken{ x",
            'nan_total{a="b"} NaN',
        )
    )
    found = list(samples(page))
    assert found[:2] == [("requests_total", {"acks": "1", "topic": 'a\\"b'}, 7.0), ("up", {}, 1.0)]
    assert len(found) == 3
