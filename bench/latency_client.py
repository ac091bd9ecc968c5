"""One record at a time through confluent-kafka, from produce() to poll(): the client of the latency scenario.

A process of its own, so that both stamps come from one clock and nothing else runs beside it. Prints one
line of JSON. The producer sends at once (linger 0) with acks=1; the consumer long-polls with Kafka's
defaults, so a fetch waits at the broker for every record: the figure is the way there, the broker's wake-up
and the way back.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.figures import percentile

TIMEOUT_SECONDS = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.latency_client", description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--warmup-records", type=int, required=True)
    parser.add_argument("--record-bytes", type=int, required=True)
    options = parser.parse_args()
    latencies_ms = measure(
        options.bootstrap, options.topic, options.warmup_records + options.records, options.record_bytes
    )
    counted = latencies_ms[options.warmup_records :]
    figures = {
        "p50_ms": percentile(counted, 0.5),
        "p99_ms": percentile(counted, 0.99),
        "p999_ms": percentile(counted, 0.999),
    }
    print(json.dumps(figures))
    return 0


def measure(bootstrap: str, topic: str, records: int, record_bytes: int) -> list[float]:
    """Milliseconds for each of `records` records, in order. Raises RuntimeError when one is lost."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-latency",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    _, end_offset = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_SECONDS)
    consumer.assign([TopicPartition(topic, 0, end_offset)])
    latencies_ms = []
    try:
        for index in range(records):
            value = index.to_bytes(8, "big").ljust(record_bytes, b"x")
            began = time.perf_counter()
            producer.produce(topic, value, partition=0)
            message = consumer.poll(TIMEOUT_SECONDS)
            latencies_ms.append((time.perf_counter() - began) * 1000)
            if message is None or message.error() or message.value() != value:
                reason = "nothing" if message is None else message.error() or "another record"
                raise RuntimeError(f"record {index}: {reason} came back")
            producer.poll(0)
        if producer.flush(TIMEOUT_SECONDS):
            raise RuntimeError("records without an acknowledgement at the end")
    finally:
        consumer.close()
    return latencies_ms


if __name__ == "__main__":
    sys.exit(main())
