"""The throttles of replication: hold back the copies of some partitions, on either side.

leader.replication.throttled.rate and follower.replication.throttled.rate bound what a broker sends and
receives for the replicas that topics' *.replication.throttled.replicas name, see core/replica/throttle.py.
Replicas move between brokers only here, never between directories of one broker, so
replica.alter.log.dirs.io.max.bytes.per.second bounds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.config.setting import Setting
from ottla.core.replica.throttle import RateWindow, throttled_partitions
from ottla.core.settings import broker_settings, topic_settings
from ottla.core.settings.config_layers import TopicConfig

if TYPE_CHECKING:
    import asyncio

    from ottla.broker.config import BrokerConfig

_NOTHING: frozenset[int] = frozenset()


class ThrottledSide:
    """One side's rate, and the partitions that it holds for."""

    def __init__(
        self,
        config: BrokerConfig,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        rate: Setting[int],
        replicas: Setting[Any],
    ) -> None:
        """`rate` is the broker's setting of bytes a second, `replicas` names those that it holds for."""
        self._config = config
        self._node_id = node_id
        self._loop = loop
        self._rate = rate
        self._replicas = replicas
        self._window = RateWindow(
            samples=config[broker_settings.REPLICATION_QUOTA_WINDOW_NUM],
            window_ms=config[broker_settings.REPLICATION_QUOTA_WINDOW_SIZE_SECONDS] * 1000,
        )
        self._throttled: dict[str, frozenset[int] | None] = {}
        self.configure()

    def configure(self) -> None:
        """Take over the broker's settings."""
        self._window.bytes_per_second = self._config[self._rate]

    def configure_topic(self, topic: str, config: TopicConfig) -> None:
        """Take over a topic's settings."""
        named = throttled_partitions(config[self._replicas], self._node_id)
        if named is None or named:
            self._throttled[topic] = named
        else:
            self._throttled.pop(topic, None)

    def forget_topic(self, topic: str) -> None:
        self._throttled.pop(topic, None)

    @property
    def is_limited(self) -> bool:
        return self._window.is_limited

    def covers(self, topic: str, partition: int) -> bool:
        """Whether the partition's copies are throttled at all."""
        if not self._window.is_limited:
            return False
        named = self._throttled.get(topic, _NOTHING)
        return named is None or partition in named

    def is_exceeded(self) -> bool:
        """Whether throttled copies have to wait."""
        return self._window.is_exceeded(int(self._loop.time() * 1000))

    def record(self, count: int) -> None:
        """Bytes of a throttled partition were copied."""
        self._window.record(count, int(self._loop.time() * 1000))


class ReplicationQuotas:
    """Both sides' throttles of this broker."""

    def __init__(self, config: BrokerConfig, node_id: int, loop: asyncio.AbstractEventLoop) -> None:
        self.leader = ThrottledSide(
            config,
            node_id,
            loop,
            broker_settings.LEADER_REPLICATION_THROTTLED_RATE,
            topic_settings.LEADER_REPLICATION_THROTTLED_REPLICAS,
        )
        self.follower = ThrottledSide(
            config,
            node_id,
            loop,
            broker_settings.FOLLOWER_REPLICATION_THROTTLED_RATE,
            topic_settings.FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
        )

    def configure(self) -> None:
        """Take over the broker's settings."""
        self.leader.configure()
        self.follower.configure()

    def configure_topic(self, topic: str, config: TopicConfig) -> None:
        """Take over a topic's settings."""
        self.leader.configure_topic(topic, config)
        self.follower.configure_topic(topic, config)

    def forget_topic(self, topic: str) -> None:
        """The topic is gone."""
        self.leader.forget_topic(topic)
        self.follower.forget_topic(topic)
