"""A producer that writes to a mirror's source all the time, partly in transactions that abort."""

from __future__ import annotations

import random
import threading

from confluent_kafka import KafkaException, Producer

from support.mirror.mirrors import CODECS, TIMEOUT_S


class Writer(threading.Thread):
    """Writes numbered records to the source until it is told to stop; some in transactions, some aborted."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self._source = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._rng = random.Random(seed)
        self._ends = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._ends.is_set():
            count = self._rng.randint(1, 200)
            values = [b"%d" % each for each in range(number, number + count)]
            number += count
            transactional = self._rng.random() < 0.5
            aborts = transactional and self._rng.random() < 0.3
            try:
                self._write(values, transactional, aborts)
            except KafkaException:
                continue  # whether they were written nobody knows: they are in both places or in none
            (self.aborted if aborts else self.acknowledged).update(values)

    def _write(self, values: list[bytes], transactional: bool, aborts: bool) -> None:
        settings = {
            "bootstrap.servers": self._source,
            "enable.idempotence": "true",
            "compression.type": self._rng.choice(CODECS),
            "log_level": 0,
        }
        if transactional:
            settings["transactional.id"] = f"writer-{self._rng.getrandbits(64):x}"
        producer = Producer(settings)
        if transactional:
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
        for value in values:
            producer.produce(self._topic, value, partition=self._rng.randrange(self._partitions))
        if producer.flush(TIMEOUT_S):
            raise KafkaException("not written")
        if aborts:
            producer.abort_transaction(TIMEOUT_S)
        elif transactional:
            producer.commit_transaction(TIMEOUT_S)

    def end(self) -> None:
        """Stop after the present records."""
        self._ends.set()
        self.join(TIMEOUT_S * 3)
        assert not self.is_alive()
