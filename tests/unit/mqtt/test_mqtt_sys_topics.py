"""What stands under `$SYS/`: counters as they are, loads as means, and only what has changed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.mqtt.core.messages import Message, message_of
from ottla.mqtt.core.sys_topics import PREFIX, SysSample, SysTopics


def texts(messages: Sequence[Message]) -> dict[str, str]:
    return {each.topic.removeprefix(PREFIX): each.payload.decode() for each in messages}


def sample(uptime_s: float, clients: int = 0, received: int = 0) -> SysSample:
    return SysSample(uptime_s, clients, 3, {"messages/received": received, "connections": 9})


def test_the_first_sample_tells_all_and_the_next_what_has_changed() -> None:
    sys = SysTopics("ottla version 1")
    first = texts(sys.sampled(sample(0.5, clients=4), 100))
    assert first == {
        "version": "ottla version 1",
        "uptime": "0 seconds",
        "clients/connected": "4",
        "clients/total": "4",
        "clients/maximum": "4",
        "retained messages/count": "3",
        "messages/received": "0",
    }
    then = texts(sys.sampled(sample(10.5, clients=1), 110))
    assert {name: text for name, text in then.items() if not name.startswith("load/")} == {
        "uptime": "10 seconds",
        "clients/connected": "1",
        "clients/total": "1",
    }
    assert sorted(sys.topics("$SYS/broker/clients/+")) == [
        f"{PREFIX}clients/{name}" for name in ("connected", "maximum", "total")
    ]
    assert sys.topics("#") == []


def test_loads_come_near_to_what_happens_in_a_minute() -> None:
    sys = SysTopics("")
    told: dict[str, str] = {}
    for number in range(100):  # 10 messages a second, every 10 seconds
        told |= texts(sys.sampled(sample(10.0 * number, received=100 * number), 0))
    assert float(told["load/messages/received/1min"]) == pytest.approx(600, rel=0.01)
    assert 300 < float(told["load/messages/received/15min"]) < 500


def test_no_record_speaks_for_the_proxy() -> None:
    assert message_of(b"$SYS/broker/version", b"forged", ()) is None
    assert message_of(b"a", b"forged", (("mqtt.topic", b"$SYS/broker/version"),)) is None
