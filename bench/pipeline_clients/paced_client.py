"""Send a record every few milliseconds, and tell how long each took until its result could be read.

Run as a process of its own: `python -m bench.pipeline_clients.paced_client --bootstrap … --input … --output …
--records N --warmup-records N --interval-ms N`. A value carries its number and the clock's time in digits, so
that a program that makes it upper case leaves them be. Reads committed records only. Prints one line of JSON:
p50_ms, p99_ms, of the time from produce() to the result's return from poll(), warm-up left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

VALUE_BYTES = 100
PATIENCE_SECONDS = 120.0


def main() -> int:
    options = _options()
    consumer = _consumer(options.bootstrap, options.output, options.partitions)
    producer = Producer({"bootstrap.servers": options.bootstrap, "linger.ms": 0, "acks": "1", "log_level": 0})
    latencies_ms: dict[int, float] = {}
    wanted = options.warmup_records + options.records
    sent = 0
    next_at = time.perf_counter()
    last_progress = next_at
    while len(latencies_ms) < wanted:
        now = time.perf_counter()
        if sent < wanted and now >= next_at:
            # The first waits until the program is up and answers; then the pace begins.
            if sent <= len(latencies_ms) or sent > 1:
                _send(producer, options.input, sent, options.partitions)
                sent += 1
            next_at += options.interval_ms / 1000
            next_at = max(next_at, now)
        producer.poll(0)
        message = consumer.poll(max(0.0, min(0.02, next_at - time.perf_counter())))
        arrived_ns = time.perf_counter_ns()
        if message is not None:
            if message.error() is not None:
                print(f"the output cannot be read: {message.error()}", file=sys.stderr)
                return 1
            _, number, sent_ns, _ = (message.value() or b"").split(b" ", 3)
            if int(number) in latencies_ms:
                print(f"record {int(number)} came twice", file=sys.stderr)
                return 1
            latencies_ms[int(number)] = (arrived_ns - int(sent_ns)) / 1e6
            last_progress = time.perf_counter()
        elif time.perf_counter() - last_progress > PATIENCE_SECONDS:
            print(f"only {len(latencies_ms)} of {wanted} results came", file=sys.stderr)
            return 1
    consumer.close()
    counted = sorted(latencies_ms[number] for number in range(options.warmup_records, wanted))
    print(json.dumps({"p50_ms": _at(counted, 0.50), "p99_ms": _at(counted, 0.99)}))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--bootstrap", "--input", "--output"):
        parser.add_argument(name, required=True)
    for name in ("--records", "--warmup-records", "--interval-ms", "--partitions"):
        parser.add_argument(name, required=True, type=int)
    return parser.parse_args()


def _consumer(bootstrap: str, topic: str, partitions: int) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "paced-client",
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    return consumer


def _send(producer: Producer, topic: str, number: int, partitions: int) -> None:
    value = f"record {number} {time.perf_counter_ns()} ".encode().ljust(VALUE_BYTES, b"x")
    producer.produce(topic, value, f"key-{number:09}".encode(), partition=number % partitions)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    sys.exit(main())
