"""kill -9 under a live consumer group: members go on, no partition is owned twice, offsets are there."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

from confluent_kafka import Consumer, TopicPartition

from support.clients.confluent import TIMEOUT_S, create_topic, eventually, produce
from support.servers.ottla_broker import OttlaBroker

PARTITIONS = 6
KILLS = 3
AFTER_A_KILL_S = 60.0


def member(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )


def test_members_go_on_after_every_kill(tmp_path: Path) -> None:
    # A member whose good-bye the killed broker never wrote is missed after its session only.
    settings = {"group.consumer.session.timeout.ms": "5000"}
    with OttlaBroker.start(tmp_path / "data", settings=settings) as broker, ExitStack() as stack:
        # given: three members that read and commit
        topic = create_topic(broker.bootstrap, "t", partitions=PARTITIONS)
        members = [member(broker.bootstrap) for _ in range(3)]
        for each in members:
            stack.callback(each.close)
            each.subscribe([topic])
        acknowledged: dict[int, int] = {}

        def poll() -> None:
            for each in members:
                message = each.poll(0.05)
                if message is None or message.error():
                    continue
                try:
                    for done in each.commit(message, asynchronous=False) or []:
                        if done.error is None:
                            acknowledged[done.partition] = max(
                                acknowledged.get(done.partition, 0), done.offset
                            )
                except Exception:  # The broker may be dead; its earlier answers count.
                    pass

        def kill_and_restart() -> None:
            # Not by the polling thread: librdkafka's synchronous commit waits for a broker without end.
            broker.kill()
            broker.restart()

        def assigned() -> Counter[int]:
            return Counter(part.partition for each in members for part in each.assignment())

        def shared() -> bool:
            poll()
            return assigned() == Counter(range(PARTITIONS))

        eventually(shared, "every partition has one reader", AFTER_A_KILL_S)
        for kill in range(KILLS):
            produce(
                broker.bootstrap,
                topic,
                [{"value": f"{kill}-{n}", "partition": n % PARTITIONS} for n in range(60)],
            )
            # when: it dies while they read, in the middle of a rebalance the second time
            if kill == 1:
                members.pop().close()
            outage = Timer(0.1 * kill, kill_and_restart)
            outage.start()
            while outage.is_alive():
                poll()
            outage.join()
            # then: everything is read, by one member each
            wanted = 10 * (kill + 1)

            def all_read(wanted: int = wanted) -> bool:
                poll()
                return assigned() == Counter(range(PARTITIONS)) and all(
                    acknowledged.get(partition, 0) >= wanted for partition in range(PARTITIONS)
                )

            eventually(all_read, f"all is read after kill {kill}", AFTER_A_KILL_S)
        # and: no acknowledged offset is lost
        parts = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        committed = members[0].committed(parts, timeout=TIMEOUT_S)
        assert {part.partition: part.offset for part in committed} == acknowledged
