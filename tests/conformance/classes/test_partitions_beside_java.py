"""Every name and key has the partition that Apache Kafka's own functions give it: random ones, both signs."""

from __future__ import annotations

import os
import random
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.core.coordination.partitioning import java_string_hash, partition_for
from ottla.core.share.keys import SharePartitionKey
from ottla.storage.checkpoints import uuid_to_text
from support.clients.named_states import seed_of_this_run
from support.clients.wire import WireClient
from support.java.java_tools import java_command, kafka_classpath
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long]

ORACLE = Path(__file__).parents[2] / "support" / "java" / "PartitionOracle.java"
COUNT = 3_000
KEY_PARTITIONS = 7


def kafkas(questions: Sequence[str], directory: Path) -> list[int]:
    """The partitions that Apache Kafka's functions give."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [str(path) for name in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(name)]
    asked, answered = directory / "questions", directory / "answers"
    asked.write_text("".join(f"{line}\n" for line in questions))
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(ORACLE),
        "PartitionOracle",
        str(asked),
        str(answered),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return [int(line) for line in answered.read_text().splitlines()]


def draw_text(rng: random.Random) -> str:
    """A text of letters, of the first plane with its lone surrogates, or of any characters."""
    largest = rng.choice((0x7E, 0xFFFF, 0x10FFFF))
    return "".join(chr(rng.randint(0x20, largest)) for _ in range(rng.randint(1, 40)))


def hexadecimal(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").hex()


def test_groups_transactional_ids_and_share_partitions(tmp_path: Path) -> None:
    rng = random.Random(seed_of_this_run())
    names = ["polygenelubricants", *(draw_text(rng) for _ in range(COUNT))]
    assert min(map(java_string_hash, names)) == -(2**31) and max(map(java_string_hash, names)) > 0
    keys = [
        SharePartitionKey(draw_text(rng), uuid.UUID(int=rng.getrandbits(128)), rng.randrange(2**31))
        for _ in range(COUNT)
    ]
    counts = [rng.randint(1, 100) for _ in (*names, *keys)]
    questions = [
        *(f"name {count} {hexadecimal(name)}" for name, count in zip(names, counts, strict=False)),
        *(
            f"share {count} {hexadecimal(key.group_id)} {uuid_to_text(key.topic_id)} {key.partition}"
            for key, count in zip(keys, counts[len(names) :], strict=True)
        ),
    ]
    found = [
        partition_for(name, count)
        for name, count in zip((*names, *(key.coordinator_key for key in keys)), counts, strict=True)
    ]
    assert found == kafkas(questions, tmp_path)


def test_keys_of_records_in_the_pipeline_and_the_proxy(tmp_path: Path) -> None:
    """Both leave a key's partition to librdkafka, by the partitioner that is named as Java's."""
    rng = random.Random(seed_of_this_run())
    drawn = {rng.randbytes(rng.randint(1, 40)) for _ in range(300)}
    expected = kafkas([f"key {KEY_PARTITIONS} {key.hex()}" for key in drawn], tmp_path)
    landed: dict[bytes, int] = {}

    def note(error: object, message: Any) -> None:
        assert error is None
        landed[message.key()] = message.partition()

    with OttlaBroker.start(tmp_path / "data") as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("t", KEY_PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
        for key in drawn:
            producer.produce("t", b"", key, on_delivery=note)
        assert producer.flush(30) == 0
    assert landed == dict(zip(drawn, expected, strict=True))
