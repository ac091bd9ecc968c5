"""The settings of an application: given flat, as keywords, and held in groups by their subject."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ottla.client.access import DEFAULT_BOOTSTRAP, ClusterAccess
from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.config.sources import Layer, from_file, from_mapping, layered
from ottla.config.telemetry_settings import OtlpTarget
from ottla.metrics.settings import LISTEN, USERS_FILE, Address, EndpointOptions
from ottla.pipeline.query.realtime import Wanted
from ottla.security.server_tls import ServerTls
from ottla.web import endpoint_settings

BOOTSTRAP_ENVIRONMENT: Final = "OTTLA_BOOTSTRAP"
STATE_ENVIRONMENT: Final = "OTTLA_STREAMS_STATE"
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the application's records and state are.

    state: the directory of checkpoints and state; it must outlive the process. dead_letters: the topic for
    records that can't be read; None: they end the application.
    """

    cluster: ClusterAccess
    state: Path
    dead_letters: str | None


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
    """The work beside the queries: the clock, global tables, metrics, interactive queries, traces.

    traces: the collector that gets a span of each batch; None without. metrics_tls: that of the metrics'
    address, None for http.
    """

    heartbeat_ms: int | None
    global_table_check_ms: int
    metrics: EndpointOptions | None
    queries_port: int | None
    traces: OtlpTarget | None
    metrics_tls: ServerTls | None = None


@dataclass(frozen=True, slots=True, init=False)
class StreamsSettings:
    """How an application runs, beside its topology. It is made from flat keywords."""

    place: Place
    spark: SparkChoice
    pace: Pace
    beginning: Beginning
    watching: Watching

    def __init__(
        self,
        bootstrap: str = DEFAULT_BOOTSTRAP,
        state: Path = Path("ottla-streams"),
        dead_letters: str | None = None,
        master: str = "local[*]",
        partitions: int = 4,
        driver_memory: str = "1g",
        batch_records: int | None = 1_000_000,
        trigger_interval_ms: int = 0,
        until_caught_up: bool = False,
        heartbeat_ms: int | None = None,
        mode: Wanted = Wanted.AUTO,
        at_least_once: bool = False,
        global_table_check_ms: int = 1_000,
        replay_from_ms: int | None = None,
        forget_lost_state: bool = False,
        metrics_port: int | None = None,
        metrics: str | None = None,
        metrics_users: Path | None = None,
        metrics_config: Path | None = None,
        queries_port: int | None = None,
        traces: OtlpTarget | None = None,
        client_options: Mapping[str, str] | None = None,
        spark_properties: Mapping[str, str] | None = None,
    ) -> None:
        """bootstrap: the cluster. client_options: for every client of it, in librdkafka's names.

        state: where checkpoints and state are kept; it must outlive the process.
        dead_letters: the topic for records that can't be read; None: they end the application. partitions: of
        internal topics, and how many parts state has: fixed with the first start.
        batch_records: at most so many records of a source a batch. until_caught_up: end when all that was
        there at the start is done. heartbeat_ms: after so long without input, event time goes on with the
        clock, so that windows close; None: it stands still. mode and at_least_once: real-time mode, where
        Spark has it and the query allows it, needs the consent that records may come twice after a failure.
        replay_from_ms: where an application without checkpoints begins, in place of its sources' own starts.
        forget_lost_state: begin anew although checkpoints are gone. metrics: where metrics and health are
        served, as HOST:PORT or https://HOST:PORT; metrics_port: on loopback. metrics_users: the file of those
        who may read them, which an address beyond loopback needs. metrics_config: a properties file with
        further settings of theirs, ottla.metrics.* and ssl.*. traces: the collector of spans. Raises
        ConfigError.
        """
        put = object.__setattr__
        put(self, "place", Place(ClusterAccess(bootstrap, client_options or {}), state, dead_letters))
        put(self, "spark", SparkChoice(master, partitions, driver_memory, spark_properties or {}))
        pace = Pace(trigger_interval_ms, batch_records, until_caught_up, mode, at_least_once)
        put(self, "pace", pace)
        put(self, "beginning", Beginning(replay_from_ms, forget_lost_state))
        if metrics is None and metrics_port is not None:
            metrics = Address(LOOPBACK, metrics_port).setting
        endpoint, tls = _endpoint(metrics, metrics_users, metrics_config)
        watching = Watching(heartbeat_ms, global_table_check_ms, endpoint, queries_port, traces, tls)
        put(self, "watching", watching)

    @classmethod
    def from_environment(cls) -> StreamsSettings:
        """The defaults, with the cluster and directory that OTTLA_BOOTSTRAP and OTTLA_STREAMS_STATE name, and
        the collector of OTEL_EXPORTER_OTLP_ENDPOINT. Raises ConfigError.
        """
        default = cls()
        return cls(
            bootstrap=os.environ.get(BOOTSTRAP_ENVIRONMENT, default.place.cluster.bootstrap),
            state=Path(os.environ.get(STATE_ENVIRONMENT, str(default.place.state))),
            traces=OtlpTarget.from_environment(os.environ),
        )

    def replayed_from(self, begin_ms: int) -> StreamsSettings:
        """The same for an application whose queries without a checkpoint begin at this time."""
        changed = copy.copy(self)
        object.__setattr__(changed, "beginning", replace(self.beginning, replay_from_ms=begin_ms))
        return changed


def _endpoint(
    place: str | None, users: Path | None, config: Path | None
) -> tuple[EndpointOptions | None, ServerTls | None]:
    """The endpoint of metrics that the settings ask for, and its TLS. Raises ConfigError."""
    own = {LISTEN.name: place, USERS_FILE.name: None if users is None else str(users)}
    texts = {name: text for name, text in own.items() if text is not None}
    given = layered({} if config is None else from_file(config), from_mapping(texts, Layer.COMMAND))
    for name in given:
        if endpoint_settings.TABLE.find(name) is None:
            raise ConfigError(f"{given[name].origin}{name}: not a setting of the metrics endpoint")
    settings = Settings(endpoint_settings.TABLE, given)
    options = EndpointOptions.of(settings)
    if options is None:
        return None, None
    return options, endpoint_settings.tls_of_endpoint(settings, options)
