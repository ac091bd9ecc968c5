"""What the service does when its broker breaks: the fixture `kafka_broker`, one for each test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from order_service.billing import Billing
from order_service.shop import Order, OrderNotPlaced, Shop
from ottla.testing import RunningBroker

RunBilling = Callable[[Billing], AbstractContextManager[Billing]]


def test_an_order_that_kafka_does_not_have_is_told_to_the_customer(kafka_broker: RunningBroker) -> None:
    orders = kafka_broker.topic("orders")
    shop = Shop(kafka_broker.bootstrap, orders, patience_seconds=2)
    shop.place(Order("1", "ann", 1))
    with kafka_broker.unreachable(), pytest.raises(OrderNotPlaced, match="order 2"):
        shop.place(Order("2", "ann", 1))
    assert len(kafka_broker.consume(orders)) == 1


def test_a_slow_broker_is_waited_for(kafka_broker: RunningBroker) -> None:
    orders = kafka_broker.topic("orders")
    shop = Shop(kafka_broker.bootstrap, orders)
    shop.place(Order("1", "ann", 1))
    with kafka_broker.delayed(150):
        shop.place(Order("2", "ann", 1))
    with kafka_broker.paused():
        placing = threading.Thread(target=shop.place, args=(Order("3", "ann", 1),))
        placing.start()
        placing.join(0.3)
        assert placing.is_alive()
    placing.join(30)
    assert len(kafka_broker.consume(orders)) == 3


def test_an_order_whose_answer_is_lost_is_written_once(kafka_broker: RunningBroker) -> None:
    orders = kafka_broker.topic("orders")
    impatient = {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
    shop = Shop(kafka_broker.bootstrap, orders, settings=impatient)
    placing = threading.Thread(target=shop.place, args=(Order("1", "ann", 1),))
    with kafka_broker.losing_answers("Produce"):
        placing.start()
        while kafka_broker.lost_answers < 2:
            placing.join(0.02)
            assert placing.is_alive()
    placing.join(30)
    assert len(kafka_broker.consume(orders)) == 1


@pytest.mark.kafka_config({"message.max.bytes": 2000})
def test_an_order_that_is_too_large_is_told_at_once(kafka_broker: RunningBroker) -> None:
    orders = kafka_broker.topic("orders")
    shop = Shop(kafka_broker.bootstrap, orders)
    with pytest.raises(OrderNotPlaced, match="order 1"):
        shop.place(Order("1", "a" * 3000, 1))
    assert kafka_broker.consume(orders) == []


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_billing_goes_on_where_it_was_after_a_restart_of_the_broker(
    kafka_broker: RunningBroker, billing: RunBilling, end: str
) -> None:
    orders, invoices = kafka_broker.topic("orders"), kafka_broker.topic("invoices")
    shop = Shop(kafka_broker.bootstrap, orders)
    with billing(Billing(kafka_broker.bootstrap, orders, invoices)):
        shop.place(Order("1", "ann", 1))
        kafka_broker.consume(invoices, 1)
        getattr(kafka_broker, end)()
        kafka_broker.start()
        shop.place(Order("2", "ann", 2))
        records = kafka_broker.consume(invoices, 2, timeout_seconds=60)
        kafka_broker.drop_connections()
        shop.place(Order("3", "ann", 3))
        records = kafka_broker.consume(invoices, 3, timeout_seconds=60)
    # each order has one invoice, in their order
    assert [json.loads(record.text or "")["order"] for record in records] == ["1", "2", "3"]
    assert len(kafka_broker.consume(invoices)) == 3
