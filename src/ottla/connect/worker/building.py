"""Puts the parts together that every worker has, distributed or alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ottla.config.settings import Settings
from ottla.connect import settings as names
from ottla.connect.core.ids import TaskId
from ottla.connect.core.runs import Runs
from ottla.connect.plugins.catalog import Catalog
from ottla.connect.state.stores import ConfigStore, StatusStore
from ottla.connect.worker.config_providers import config_providers
from ottla.connect.worker.connector_logs import ConnectorLogs
from ottla.connect.worker.fencing import TakeOver, fence_task
from ottla.connect.worker.herder import Herder, HerderParts, Offsets, TaskFigures
from ottla.connect.worker.hosts import Command, Hosts, host_command
from ottla.connect.worker.loggers import Loggers
from ottla.connect.worker.preparing import RunPreparing
from ottla.connect.worker.reconciling import Reconciler
from ottla.connect.worker.supervision import Supervisor

Fence = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker finds around it; tests have others. command: of hosts."""

    catalog: Catalog
    offsets: Offsets
    command: Command = host_command
    take_over: TakeOver = fence_task


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The parts of one worker. properties: as runs get them."""

    reconciler: Reconciler
    supervisor: Supervisor
    herder: Herder
    hosts: Hosts
    logs: ConnectorLogs
    properties: Mapping[str, str]


def build(
    settings: Settings,
    configs: ConfigStore,
    statuses: StatusStore,
    worker_id: str,
    around: Surroundings,
    fence: Fence,
    *,
    standalone: bool,
) -> WorkerParts:
    """The parts of a worker, not running yet. Raises ConfigError."""
    providers = config_providers(settings)
    loggers = Loggers()
    directory = settings[names.LOG_DIRECTORY]
    logs = ConnectorLogs(None if directory is None else Path(directory))
    tracks_topics = settings[names.TOPIC_TRACKING]
    reconciler = Reconciler(
        configs, statuses, around.catalog, worker_id, loggers, tracks_topics=tracks_topics
    )
    properties = names.host_properties(settings, standalone=standalone)
    view = names.worker_view(settings, providers.names, standalone=standalone)
    needed_fence = fence if view.exactly_once else None
    preparing = RunPreparing(
        configs,
        reconciler,
        providers,
        properties,
        around.offsets.source,
        needed_fence,
        around.take_over,
    )
    hosts = Hosts(logs, around.command)
    runs = Runs(names.restart_policy(settings))
    supervisor = Supervisor(runs, hosts, preparing, reconciler, settings[names.GRACEFUL_MS])
    parts = HerderParts(
        configs,
        statuses,
        around.catalog,
        view,
        around.offsets,
        preparing.owner,
        preparing.resolved,
        fence,
        loggers,
        logs,
        lambda id: _figures(supervisor, id),
    )
    herder = Herder(
        parts, allows_topic_reset=settings[names.TOPIC_TRACKING_RESET], tracks_topics=tracks_topics
    )
    return WorkerParts(reconciler, supervisor, herder, hosts, logs, properties)


def _figures(supervisor: Supervisor, id: TaskId) -> TaskFigures:
    return TaskFigures(supervisor.figures.get(id, {}), supervisor.figures_of_partitions.get(id, {}))
