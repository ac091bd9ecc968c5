"""Producers that write to a link's source all the time, plain batches and transactions."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

ATTEMPTS_S = 60


class Load(threading.Thread):
    """Writes plain batches and transactions until it is stopped; remembers what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._address = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._dice = random.Random(seed)
        self._stopped = threading.Event()
        self.acknowledged: set[bytes] = set()

    def run(self) -> None:
        plain = Producer(
            {"bootstrap.servers": self._address, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        )
        number = 0
        while not self._stopped.is_set():
            number += 1
            for each in range(self._dice.randrange(1, 20)):
                value = f"{number}-{each}".encode()
                plain.produce(
                    self._topic,
                    value,
                    partition=self._dice.randrange(self._partitions),
                    on_delivery=self._delivered,
                )
            plain.poll(0.01)
            if number % 10 == 0:
                with contextlib.suppress(KafkaException):
                    self._transaction(number)
        plain.flush(ATTEMPTS_S)

    def _transaction(self, number: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._address,
                "transactional.id": f"{self._topic}-{number}",
                "log_level": 0,
            }
        )
        producer.init_transactions(5)
        producer.begin_transaction()
        for index in range(self._partitions):
            producer.produce(self._topic, f"t{number}-{index}".encode(), partition=index)
        if self._dice.random() < 0.5:
            producer.commit_transaction(5)
        else:
            producer.abort_transaction(5)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value())

    def stop(self) -> None:
        self._stopped.set()
        self.join(2 * ATTEMPTS_S)
        assert not self.is_alive()
