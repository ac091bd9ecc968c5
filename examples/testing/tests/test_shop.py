"""The shop on a broker that works: the fixtures `kafka` and `schema_registry`."""

from __future__ import annotations

import io
import json
import struct
import urllib.request

import fastavro

from order_service.shop import ORDER_SCHEMA, AvroOrders, Order, Shop
from ottla.testing import Kafka, RunningRegistry


def test_an_order_is_written_with_its_customer_as_key(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=3)
    offset = Shop(kafka.bootstrap, orders).place(Order("1", "ann", 250))
    (record,) = kafka.consume(orders)
    assert (record.offset, record.key_text) == (offset, "ann")
    assert json.loads(record.text or "") == {"number": "1", "customer": "ann", "cents": 250}


def test_the_orders_of_a_customer_keep_their_order(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=3)
    shop = Shop(kafka.bootstrap, orders)
    for number in range(10):
        shop.place(Order(str(number), "ann" if number % 2 else "bob", 1))
    of_ann = [record for record in kafka.consume(orders) if record.key_text == "ann"]
    assert len({record.partition for record in of_ann}) == 1
    assert [json.loads(record.text or "")["number"] for record in of_ann] == ["1", "3", "5", "7", "9"]


def test_an_avro_order_is_registered_and_read_by_its_schema(
    kafka: Kafka, schema_registry: RunningRegistry
) -> None:
    orders = kafka.topic("avro-orders")
    order = Order("1", "ann", 250)
    Shop(kafka.bootstrap, orders).place(order, AvroOrders(schema_registry.url, orders).encode(order))
    value = kafka.consume(orders)[0].value
    assert value is not None
    magic, schema_id = struct.unpack(">bi", value[:5])
    with urllib.request.urlopen(f"{schema_registry.url}/schemas/ids/{schema_id}") as answer:
        schema = json.loads(json.load(answer)["schema"])
    assert magic == 0 and schema == json.loads(ORDER_SCHEMA)
    found = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
    assert found == {"number": "1", "customer": "ann", "cents": 250}
