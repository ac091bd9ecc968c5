"""How an application runs: as users give it, flat, and as the steps of a start take it, in groups.

What the application does is its topology.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.pipeline.query.realtime import Wanted

BOOTSTRAP_ENVIRONMENT: Final = "OTTLA_BOOTSTRAP"
STATE_ENVIRONMENT: Final = "OTTLA_STREAMS_STATE"


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """How an application runs; what it does is its topology.

    bootstrap: the cluster. state: where checkpoints and state are kept; it must outlive the process.
    dead_letters: the topic for records that can't be read; None: they end the application. partitions: of
    internal topics, and how many parts state has: fixed with the first start.
    batch_records: at most so many records of a source a batch. until_caught_up: end when all that was there
    at the start is done. heartbeat_ms: after so long without input, event time goes on with the clock, so
    that windows close; None: it stands still. mode and at_least_once: real-time mode, where Spark has it and
    the query allows it, needs the consent that records may come twice after a failure. replay_from_ms: where
    an application without checkpoints begins, in place of its sources' own starts. forget_lost_state: begin
    anew although checkpoints are gone.
    """

    bootstrap: str = "127.0.0.1:9092"
    state: Path = Path("ottla-streams")
    dead_letters: str | None = None
    master: str = "local[*]"
    partitions: int = 4
    driver_memory: str = "1g"
    batch_records: int | None = 1_000_000
    trigger_interval_ms: int = 0
    until_caught_up: bool = False
    heartbeat_ms: int | None = None
    mode: Wanted = Wanted.AUTO
    at_least_once: bool = False
    global_table_check_ms: int = 1_000
    replay_from_ms: int | None = None
    forget_lost_state: bool = False
    metrics_port: int | None = None
    queries_port: int | None = None
    client_options: Mapping[str, str] = field(default_factory=dict)
    spark_properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls) -> StreamsSettings:
        """The defaults, with what OTTLA_BOOTSTRAP and OTTLA_STREAMS_STATE say."""
        default = cls()
        return cls(
            bootstrap=os.environ.get(BOOTSTRAP_ENVIRONMENT, default.bootstrap),
            state=Path(os.environ.get(STATE_ENVIRONMENT, str(default.state))),
        )

    def grouped(self) -> RunSettings:
        """The same for the steps of a start."""
        return RunSettings(
            Place(ClusterAccess(self.bootstrap, self.client_options), self.state, self.dead_letters),
            SparkChoice(self.master, self.partitions, self.driver_memory, self.spark_properties),
            Pace(
                self.trigger_interval_ms,
                self.batch_records,
                self.until_caught_up,
                self.mode,
                self.at_least_once,
            ),
            Beginning(self.replay_from_ms, self.forget_lost_state),
            Watching(self.heartbeat_ms, self.global_table_check_ms, self.metrics_port, self.queries_port),
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where the application's records and state are."""

    cluster: ClusterAccess
    state: Path
    dead_letters: str | None

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def client_options(self) -> Mapping[str, str]:
        """The properties that every client of the cluster gets, in librdkafka's names."""
        return self.cluster.properties


@dataclass(frozen=True, slots=True)
class SparkChoice:
    """The Spark that the application runs on. partitions: of state, and of internal topics."""

    master: str
    partitions: int
    driver_memory: str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Pace:
    """How records go through a query: in which batches, until when, in which mode."""

    trigger_interval_ms: int
    batch_records: int | None
    until_caught_up: bool
    mode: Wanted
    at_least_once: bool


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a query without a checkpoint begins, and whether one that has lost its checkpoint may."""

    replay_from_ms: int | None
    forget_lost_state: bool


@dataclass(frozen=True, slots=True)
class Watching:
    """What goes on beside the queries: the clock, global tables, metrics, interactive queries."""

    heartbeat_ms: int | None
    global_table_check_ms: int
    metrics_port: int | None
    queries_port: int | None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of an application by what they are about."""

    place: Place
    spark: SparkChoice
    pace: Pace
    beginning: Beginning
    watching: Watching
