"""The metrics of a Connect worker, and its checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ottla.connect.core.ids import CONNECTOR
from ottla.connect.core.runs import Phase
from ottla.connect.host.figures import connectors_figures
from ottla.connect.worker.distributed import DistributedWorker
from ottla.connect.worker.standalone import StandaloneWorker
from ottla.metrics.exposition import Family, by_label, single
from ottla.metrics.health import Check, Verdict
from ottla.metrics.tables import connect as table
from ottla.replicated.metrics_source import group_families, state_families
from ottla.web.confluent_families import confluent_families
from ottla.web.request_figures import RequestFigures

AnyWorker = DistributedWorker | StandaloneWorker
Running = Callable[[], AnyWorker | None]

STATES = {
    Phase.STARTING: "starting",
    Phase.RUNNING: "running",
    Phase.PAUSED: "paused",
    Phase.STOPPING: "stopping",
    Phase.WAITING: "restarting",
    Phase.FAILED: "failed",
    Phase.IDLE: "stopped",
    Phase.DONE: "done",
}

SLOT_FIGURES = {
    "slot-lag-bytes": table.SLOT_LAG,
    "slot-retained-bytes": table.SLOT_RETAINED,
    "slot-safe-bytes": table.SLOT_SAFE,
    "slot-wal-status": table.SLOT_WAL_STATUS,
}
"""What the sources of databases' changes tell of their slots."""


def connect_families(figures: RequestFigures, worker: AnyWorker | None) -> Iterator[Family]:
    """All metrics of a worker."""
    yield from confluent_families(table.HTTP, figures)
    if worker is None:
        return
    phases = worker.parts.supervisor.phases
    of_connectors = Counter(STATES[phase] for id, phase in phases.items() if id.task == CONNECTOR)
    of_tasks = Counter(STATES[phase] for id, phase in phases.items() if id.task != CONNECTOR)
    yield by_label(table.CONNECTORS, {state: of_connectors[state] for state in STATES.values()})
    yield by_label(table.TASKS, {state: of_tasks[state] for state in STATES.values()})
    yield single(table.CONNECTORS_CONFIGURED, len(worker.parts.herder.image.connectors))
    yield single(table.HOSTS, len(worker.parts.hosts.running))
    yield single(table.HOST_STARTS, worker.parts.hosts.starts)
    figures_of = dict(worker.parts.supervisor.figures)
    yield Family(
        table.TASK_FIGURES,
        [
            ((id.connector, str(id.task), name), value)
            for id, found in figures_of.items()
            for name, value in found.items()
        ],
    )
    for name, metric in SLOT_FIGURES.items():
        found = ((id, connectors_figures(each).get(name)) for id, each in figures_of.items())
        yield Family(
            metric, [((id.connector, str(id.task)), value) for id, value in found if value is not None]
        )
    yield Family(
        table.PARTITION_FIGURES,
        [
            ((id.connector, str(id.task), partition, name), value)
            for id, partitions in worker.parts.supervisor.figures_of_partitions.items()
            for partition, found in partitions.items()
            for name, value in found.items()
        ],
    )
    if isinstance(worker, DistributedWorker):
        yield from group_families(worker.leadership, worker.member)
        yield from state_families(worker.states)


def connect_checks(running: Running) -> list[Check]:
    """Whether the worker can do its work."""
    return [Check("connect-worker", lambda: _verdict(running()))]


def _verdict(worker: AnyWorker | None) -> Verdict:
    if worker is None or not worker.is_ready:
        return Verdict(False, "its topics are being read")
    if isinstance(worker, DistributedWorker):
        loss = worker.configs.topic.loss
        if loss is not None:
            return Verdict(True, f"changes are refused: the topic of configurations {loss.value}")
        if worker.leadership.url is None:
            return Verdict(True, "the group has no leader at the moment: changes wait for one")
    failed = [str(id) for id, phase in worker.parts.supervisor.phases.items() if phase is Phase.FAILED]
    told = f"; failed: {', '.join(sorted(failed)[:5])}" if failed else ""
    return Verdict(True, f"{len(worker.parts.supervisor.phases)} connectors and tasks are here{told}")
