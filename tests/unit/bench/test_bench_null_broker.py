"""The broker that does nothing serves the clients of the scenarios as a real one would."""

from __future__ import annotations

import time

from bench import clients
from bench.scenarios.beside import other_programs
from bench.servers import System, serve
from confluent_kafka import Consumer, Producer

RECORDS = 1_000


def test_it_counts_the_records_of_each_partition_and_gives_as_many_back(tmp_path):
    with serve(System.NULL, tmp_path) as server:
        clients.create_topic(server, partitions=2)
        # given records in batches of the client's choice
        offsets: list[int] = []
        producer = Producer({"bootstrap.servers": server.bootstrap, "linger.ms": 2, "acks": 1})
        for number in range(RECORDS):
            producer.produce(
                clients.TOPIC,
                b"%d" % number,
                partition=0,
                on_delivery=lambda _, told: offsets.append(told.offset()),
            )
        assert producer.flush(20) == 0
        # then each has its offset, and the partitions their ends
        assert offsets == list(range(RECORDS))
        assert clients.end_offsets(server, 2) == RECORDS
        # and a group's member reads so many, in order, though not the same
        consumer = Consumer(
            {"bootstrap.servers": server.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        try:
            consumer.subscribe([clients.TOPIC])
            read: list[int | None] = []
            deadline = time.monotonic() + 30
            while len(read) < RECORDS and time.monotonic() < deadline:
                read += [each.offset() for each in consumer.consume(RECORDS, 0.2) if each.error() is None]
            assert read[:RECORDS] == list(range(RECORDS))
        finally:
            consumer.close()


def test_other_programs_run_for_the_length_of_the_block(tmp_path):
    with serve(System.NULL, tmp_path) as server, other_programs(2):
        assert server.waiting_seconds() >= 0
