"""The producer of a proxy where no broker answers: bounds, settings and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.client.access import ClusterAccess
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.rest.records import producing as producing_module
from ottla.rest.records.producing import Outgoing, Producing
from ottla.rest.settings import TABLE
from ottla.web.bounded_log import LIBRDKAFKA, BoundedHandler
from ottla.web.errors import ApiError, ServiceError
from support.rest.fake_producing import FakeRegistry
from support.servers.cluster import free_port

QUICK = {"api.v3.produce.response.timeout.ms": "300", "producer.log_level": "0"}


def run(settings: dict[str, str], story: Callable[[Producing], Awaitable[None]]) -> None:
    """Tell a story with a producer whose cluster is not there."""

    async def told() -> None:
        given = Settings(TABLE, from_mapping({**QUICK, **settings}))
        producing = Producing(given, ClusterAccess(f"127.0.0.1:{free_port()}"), FakeRegistry().client())
        try:
            await producing.start()
            await story(producing)
        finally:
            await producing.stop()

    asyncio.run(told())


def test_records_that_nobody_takes_fail_in_time() -> None:
    async def story(producing: Producing) -> None:
        deliveries = await producing.send("t", [Outgoing(b"k", b"v")] * 3)
        await deliveries.wait()
        codes = {error.code() for error in deliveries.failures.values()}
        assert len(deliveries.failures) == 3 and codes == {KafkaError._MSG_TIMED_OUT}

    run({}, story)


def test_complaints_of_a_cluster_that_is_away_are_of_the_clients_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So that the service's bound of log lines counts them with the lines of librdkafka."""

    async def story(producing: Producing) -> None:
        await (await producing.send("t", [Outgoing(b"k", b"v")])).wait()

    run({}, story)
    complaints = [each for each in caplog.records if each.getMessage().startswith("the producer: ")]
    assert complaints
    bounded = BoundedHandler(logging.NullHandler())
    assert {bounded._kind(each) for each in complaints} == {bounded._kind(librdkafkas_line())}


def librdkafkas_line() -> logging.LogRecord:
    return logging.LogRecord(
        "any", logging.WARNING, "", 0, LIBRDKAFKA, ("FAIL", "rdkafka#producer-1", "away"), None
    )


def test_records_beyond_the_queue_wait_for_room_and_then_fail() -> None:
    async def story(producing: Producing) -> None:
        deliveries = await producing.send("t", [Outgoing(None, b"v")] * 25)
        await deliveries.wait()
        # ten at a time are let into the queue, for as long as the request may wait
        assert len(deliveries.failures) == 25
        codes = [deliveries.failures[place].code() for place in range(25)]
        assert codes[:10] == [KafkaError._MSG_TIMED_OUT] * 10
        assert KafkaError._QUEUE_FULL in codes

    run({"producer.queue.buffering.max.messages": "10"}, story)


def test_no_more_records_are_under_way_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing_module, "MAX_IN_FLIGHT", 10)
    monkeypatch.setattr(producing_module, "SLICE", 5)

    async def story(producing: Producing) -> None:
        first = await producing.send("t", [Outgoing(None, b"v")] * 10)
        waiting = asyncio.create_task(producing.send("t", [Outgoing(None, b"w")] * 5))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await first.wait()
        await (await waiting).wait()

    run({}, story)


def test_a_producer_that_had_a_fatal_error_is_replaced() -> None:
    async def story(producing: Producing) -> None:
        deliveries = await producing.send("t", [Outgoing(None, b"v")])
        producing._complain(KafkaError(KafkaError._FATAL, "the end", fatal=True))
        await deliveries.wait()
        assert deliveries.failures[0].code() == KafkaError._PURGE_QUEUE
        again = await producing.send("t", [Outgoing(None, b"v")])
        await again.wait()
        assert again.failures[0].code() == KafkaError._MSG_TIMED_OUT

    run({}, story)


class Refused:
    """A producer whose next poll raises a fatal error, as confluent-kafka's does; else it is `inner`."""

    def __init__(self, inner: Any, error: KafkaError) -> None:
        self._inner = inner
        self._errors = [error]

    def poll(self, timeout: float) -> int:
        if self._errors:
            raise KafkaException(self._errors.pop())
        polled: int = self._inner.poll(timeout)
        return polled

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_user_who_may_not_write_idempotently_writes_otherwise() -> None:
    """Of a user without rights librdkafka's idempotent producer ends, before it has a record to send."""

    async def story(producing: Producing) -> None:
        made: list[dict[str, Any]] = []
        make = producing._make
        producing._make = lambda properties: made.append(properties) or make(properties)  # type: ignore
        error = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no", fatal=True)
        producing._producer = refused = Refused(producing._producer, error)  # type: ignore[assignment]
        failing = asyncio.create_task(producing.failed())
        async with asyncio.timeout(10):
            while producing._producer is refused:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert "enable.idempotence" not in made[-1]
        deliveries = await producing.send("t", [Outgoing(None, b"v")])
        await deliveries.wait()
        assert not failing.done()
        failing.cancel()

    run({}, story)


def test_delivery_reports_that_can_not_be_taken_end_the_service() -> None:
    class Broken:
        def poll(self, _timeout: float) -> int:
            raise RuntimeError("no more reports")

    async def story(producing: Producing) -> None:
        working = producing._producer
        producing._producer = Broken()  # type: ignore[assignment]
        said = await asyncio.wait_for(producing.failed(), 10)
        assert said == "the producer: no more reports"
        producing._producer = working

    run({}, story)


def test_what_is_under_way_at_the_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing_module, "STOP_SECONDS", 0.05)

    async def story(producing: Producing) -> None:
        deliveries = await producing.send("t", [Outgoing(None, b"v")])
        await producing.stop()
        await deliveries.wait()
        assert deliveries.failures[0].code() == KafkaError._PURGE_QUEUE
        with pytest.raises(ApiError) as refused:
            await producing.send("t", [Outgoing(None, b"v")])
        assert refused.value.status == 503

    run({"api.v3.produce.response.timeout.ms": "60000"}, story)


@pytest.mark.parametrize(
    "settings",
    [{"producer.acks": "1"}, {"producer.enable.idempotence": "false"}, {"producer.linger.ms": "0"}],
)
def test_settings_that_go_to_the_producer(settings: dict[str, str]) -> None:
    async def story(producing: Producing) -> None:
        assert (await producing.send("t", [])).failures == {}

    run(settings, story)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"producer.nonsense": "1"}, "nonsense"),
        ({"producer.linger.ms": "x"}, "queue.buffering.max.ms"),
        ({"producer.acks": "1", "producer.enable.idempotence": "true"}, "acks"),
    ],
)
def test_settings_that_can_not_be_say_so_in_a_line(settings: dict[str, str], said: str) -> None:
    async def story(_producing: Producing) -> None:
        raise AssertionError("it started")

    with pytest.raises(ServiceError, match=said):
        run(settings, story)


def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing_module, "METADATA_SECONDS", 0.2)

    async def story(producing: Producing) -> None:
        for ask in (producing.cluster_id(), producing.partitions("t")):
            with pytest.raises(ApiError) as told:
                await ask
            assert (told.value.status, told.value.error_code) == (500, 50003)
        assert await producing.partitions("no topic") is None

    run({}, story)
