"""The worker behind the REST API: queries of its images, and changes that the leader decides and stores."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from ottla.config.errors import ConfigError, UserError
from ottla.connect.cdc.core.signals import BadSignal
from ottla.connect.core import decisions
from ottla.connect.core.config_image import ConfigImage
from ottla.connect.core.config_records import LoggerLevel, Properties, RestartRequest
from ottla.connect.core.decisions import Decided
from ottla.connect.core.errors import Refused, not_found
from ottla.connect.core.ids import CONNECTOR, State, TargetState, TaskId
from ottla.connect.core.planning import is_planned_from
from ottla.connect.core.status_image import Status, StatusImage, TopicStatus
from ottla.connect.host.figures import connectors_figures
from ottla.connect.host.messages import Role, Run, Start
from ottla.connect.offsets.connector_offsets import (
    BadOffsets,
    ConnectorOffset,
    ConnectorOffsets,
    OffsetsFailed,
    OffsetsOwner,
)
from ottla.connect.plugins.catalog import Catalog, Engine, Kind
from ottla.connect.plugins.definition_validation import (
    CONNECTORS,
    ConfigInfos,
    WorkerView,
    plugin_definitions,
    validated,
)
from ottla.connect.state.stores import ConfigStore, StatusStore
from ottla.connect.worker.connector_logs import ConnectorLogs
from ottla.connect.worker.loggers import LEVELS, Loggers
from ottla.connect.worker.signal_sending import NotTaken, send_signal
from ottla.connect.worker.signing import is_signed
from ottla.replicated.errors import Fenced, NotPrimary, TooLarge, Unstored
from ottla.replicated.loss import TopicLost

log = logging.getLogger("ottla.connect")

T = TypeVar("T")

ERRORS_AT: Final = (
    "\nYou can also find the above list of errors at the endpoint "
    "`/connector-plugins/{connectorType}/config/validate`"
)
_INITIAL: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
_PLUGIN_ORDER: Final = (
    Kind.SINK,
    Kind.SOURCE,
    Kind.TRANSFORMATION,
    Kind.PREDICATE,
    Kind.CONVERTER,
    Kind.HEADER_CONVERTER,
)


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where the offsets of connectors are: of sources in Python, of sinks, of sources on Spark."""

    source: ConnectorOffsets
    sink: ConnectorOffsets
    checkpoint: ConnectorOffsets


class TaskFigures(NamedTuple):
    """What a task of this worker has told last: its counters, and those of its source partitions by name."""

    own: Mapping[str, float]
    of_partitions: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class HerderParts:
    """What a herder stands on. figures: of a task; empty ones where it does not run on this worker."""

    configs: ConfigStore
    statuses: StatusStore
    catalog: Catalog
    view: WorkerView
    offsets: Offsets
    owner: Callable[[str, Properties], OffsetsOwner]
    resolved: Callable[[Properties], Awaitable[dict[str, str]]]
    fence: Callable[[str], Awaitable[None]]
    loggers: Loggers
    logs: ConnectorLogs
    figures: Callable[[TaskId], TaskFigures]


class Herder:
    """Answers are the JSON of Connect's REST API. Refusals are raised as Refused."""

    def __init__(self, parts: HerderParts, *, allows_topic_reset: bool, tracks_topics: bool) -> None:
        self._parts = parts
        self._allows_topic_reset = allows_topic_reset
        self._tracks_topics = tracks_topics
        self._validating = asyncio.Semaphore(8)

    @property
    def image(self) -> ConfigImage:
        """The configurations."""
        return self._parts.configs.image

    @property
    def statuses(self) -> StatusImage:
        """The statuses."""
        return self._parts.statuses.image

    # -- queries --------------------------------------------------------------------------------------

    def info(self, connector: str) -> dict[str, Any]:
        """A connector: its configuration, its tasks and its type."""
        config = self._config(connector)
        return {
            "name": connector,
            "config": dict(config),
            "tasks": [
                {"connector": connector, "task": task} for task in range(self.image.task_count(connector))
            ],
            "type": self._type(config),
        }

    def config(self, connector: str) -> dict[str, str]:
        """A connector's configuration."""
        return dict(self._config(connector))

    def status(self, connector: str) -> dict[str, Any]:
        """The states of a connector and its tasks."""
        found = self.statuses.status(TaskId(connector, CONNECTOR))
        if found is None:
            raise Refused(404, f"No status found for connector {connector}")
        return self._status(connector, found, lambda _id, state: state)

    def task_status(self, connector: str, task: int) -> dict[str, Any]:
        """The state of one task."""
        id = TaskId(connector, task)
        found = self.statuses.status(id)
        if found is None:
            raise Refused(404, f"No status found for task {id}")
        return {"id": task, **_told(found, self._state(id, found)), **self._figures(id)}

    def _figures(self, id: TaskId) -> dict[str, Any]:
        """What a task's connector tells of the other system, where the task runs on this worker."""
        told = self._parts.figures(id)
        if told.of_partitions:
            return {"figures": {**told.own, "partitions": told.of_partitions}}
        found = connectors_figures(told.own)
        return {"figures": found} if found else {}

    def tasks(self, connector: str) -> list[dict[str, Any]]:
        """The tasks of a connector with their configurations."""
        self._config(connector)
        return [
            {"id": {"connector": connector, "task": task}, "config": dict(config)}
            for task, config in enumerate(self.image.task_configs(connector))
        ]

    def topics(self, connector: str) -> dict[str, Any]:
        """The topics that a connector uses."""
        self._require_tracking()
        return {connector: {"topics": sorted(self.statuses.topics(connector))}}

    def reset_topics(self, connector: str) -> None:
        """Forget the topics that a connector has used."""
        self._require_tracking()
        if not self._allows_topic_reset:
            raise Refused(403, "Topic tracking reset is disabled.")
        self._parts.statuses.put([TopicStatus(each, connector) for each in self.statuses.topics(connector)])

    def log_lines(
        self, connector: str, count: int, after: int | None, *, is_javas: bool = False
    ) -> dict[str, Any]:
        """The last lines of a connector's log on this worker, or those after a number told before.

        is_javas: the Java worker knows the connector, the image does not.
        """
        if not is_javas:
            self._config(connector)
        logs = self._parts.logs
        lines, last = logs.last(connector, count) if after is None else logs.after(connector, after)
        return {"lines": list(lines), "next": str(last)}

    def _require_tracking(self) -> None:
        if not self._tracks_topics:
            raise Refused(403, "Topic tracking is disabled.")

    def _config(self, connector: str) -> Properties:
        config = self.image.config(connector)
        if config is None:
            raise not_found(connector)
        return config

    def _type(self, config: Properties) -> str:
        plugin = self._parts.catalog.find(config.get("connector.class", ""), *CONNECTORS)
        return "unknown" if plugin is None else plugin.kind

    def _status(
        self, connector: str, status: Status, state_of: Callable[[TaskId, State], State]
    ) -> dict[str, Any]:
        config = self.image.config(connector)
        # The statuses of tasks that a connector has lost are taken away a moment later than the tasks.
        count = self.image.task_count(connector)
        tasks = [each for each in self.statuses.tasks(connector) if config is None or each[0] < count]

        def told(id: TaskId, status: Status) -> dict[str, Any]:
            return {**_told(status, state_of(id, self._state(id, status))), **self._figures(id)}

        return {
            "name": connector,
            "connector": told(TaskId(connector, CONNECTOR), status),
            "tasks": [{"id": task, **told(TaskId(connector, task), each)} for task, each in tasks],
            "type": "unknown" if config is None else self._type(config),
        }

    def _state(self, id: TaskId, status: Status) -> State:
        """The state that is told: RESTARTING in place of one that a former configuration had.

        So nobody who has changed a configuration, at whichever worker, takes the former run for the new one.
        Tasks that go on as a connector's former configuration wants, because it can't start with the present
        one, are told as they are.
        """
        image = self.image
        config = image.config(id.connector)
        if config is None or image.target(id.connector) is not TargetState.STARTED:
            return status.state
        if status.state not in (State.RUNNING, State.FAILED) or status.revision is None:
            return status.state
        if status.revision < image.revision(id):
            return State.RESTARTING
        task = None if id.task == CONNECTOR else image.task_config(id.connector, id.task)
        if task is None or is_planned_from(config, task):
            return status.state
        connector = TaskId(id.connector, CONNECTOR)
        of_connector = self.statuses.status(connector)
        is_final = (
            of_connector is not None
            and of_connector.state is State.FAILED
            and of_connector.revision == image.revision(connector)
        )
        return status.state if is_final else State.RESTARTING

    # -- changes --------------------------------------------------------------------------------------

    async def write(self, decide: Callable[[], Decided[T]]) -> T:
        """Store a decision. Raises Refused, also for a worker that is not the leader or can't write."""
        try:
            return await self._parts.configs.write(decide)
        except (NotPrimary, Fenced):
            raise Refused(
                409,
                "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
                "was underway.",
            ) from None
        except TooLarge:
            raise Refused(400, "The configuration is larger than a record of its topic may be") from None
        except TopicLost as lost:
            raise Refused(500, f"The topic of configurations {lost}") from None
        except Unstored as problem:
            raise Refused(500, f"Error writing connector configuration to Kafka: {problem}") from None
        except TimeoutError:
            raise Refused(500, "Error writing connector configuration to Kafka: it took too long") from None

    async def create(
        self, connector: str, config: Mapping[str, str | None], initial_state: str | None
    ) -> dict[str, Any]:
        """A new connector."""
        known = await self._valid(config)
        target = None if initial_state is None else _INITIAL[initial_state]
        await self.write(lambda: decisions.create(self.image, connector, known, target))
        return self._created(connector, known)

    async def put(self, connector: str, config: Mapping[str, str | None]) -> tuple[bool, dict[str, Any]]:
        """A connector's whole configuration; whether the connector is new."""
        known = await self._valid(config)
        is_new = await self.write(lambda: decisions.put(self.image, connector, known))
        return is_new, self._created(connector, known)

    async def patch(self, connector: str, patch: Mapping[str, str | None]) -> dict[str, Any]:
        """Changes of a connector's configuration."""
        changed = decisions.patched(self.image, connector, patch)
        known = await self._valid(changed)
        await self.write(lambda: decisions.put(self.image, connector, known))
        return self._created(connector, known)

    def _created(self, connector: str, config: Properties) -> dict[str, Any]:
        if connector in self.image:
            return self.info(connector)
        return {"name": connector, "config": dict(config), "tasks": [], "type": self._type(config)}

    async def delete(self, connector: str) -> None:
        """A connector's end."""
        await self.write(lambda: decisions.delete(self.image, connector))

    async def set_target(self, connector: str, target: TargetState) -> None:
        """Pause, resume or stop a connector."""
        await self.write(lambda: decisions.set_target(self.image, connector, target))

    async def restart(self, request: RestartRequest) -> dict[str, Any]:
        """Restart a connector, and perhaps its tasks; the states that they have by that."""
        connector = request.connector
        if connector not in self.image:
            raise Refused(404, f"Unknown connector: {connector}")
        found = self.statuses.status(TaskId(connector, CONNECTOR))
        is_plain = not request.include_tasks and not request.only_failed
        if found is None and not is_plain:
            raise Refused(404, f"Status for connector {connector} not found")
        plan = {} if found is None else self._status(connector, found, _restarted(request))
        await self.write(lambda: decisions.restart(self.image, request))
        return plan

    async def restart_task(self, id: TaskId) -> None:
        """Restart one task."""
        await self.write(lambda: decisions.restart_task(self.image, id))

    async def set_tasks(self, connector: str, configs: Sequence[Properties]) -> None:
        """The configurations of a connector's tasks, as the worker that runs it has planned them."""
        await self.write(lambda: decisions.set_tasks(self.image, connector, configs))

    async def fence(self, connector: str) -> None:
        """Fence the former tasks of a source, once for each set of configurations."""
        config = self._config(connector)
        if self._type(config) != Kind.SOURCE:
            raise Refused(400, f"Connector {connector} is not a source connector")
        await self._parts.fence(connector)

    def require_signed(self, body: bytes, signature: str | None) -> None:
        """Raises Refused for a request that comes from no worker of this cluster."""
        key = self.image.session_key
        if signature is None:
            raise Refused(400, "Internal request missing required signature")
        if key is None:
            raise Refused(
                503,
                "This worker is still starting up and has not been able to read a session key from the "
                "config topic yet",
            )
        if not is_signed(key, body, signature):
            raise Refused(403, "Internal request contained invalid signature.")

    # -- plugins --------------------------------------------------------------------------------------

    def plugins(self, *, connectors_only: bool) -> list[dict[str, Any]]:
        """All plugins, by their types in Connect's order and then by name."""
        kinds = CONNECTORS if connectors_only else _PLUGIN_ORDER
        return [
            {"class": name, "type": kind, "version": version}
            for kind in kinds
            for name, version in sorted(
                (each.names[0], each.version) for each in self._parts.catalog.plugins if each.kind is kind
            )
        ]

    def knows_plugin(self, name: str, *kinds: Kind) -> bool:
        """Whether a plugin of this name, of these kinds or of any, is one of ottla's."""
        return self._parts.catalog.find(name, *(kinds or Kind)) is not None

    def plugin_config(self, name: str) -> list[dict[str, Any]]:
        """The keys of a plugin's configuration."""
        found = plugin_definitions(self._parts.catalog, name)
        if found is None:
            raise Refused(404, f"Unknown plugin {name}.")
        return [each.as_json() for each in found]

    async def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        """The judgement of a configuration."""
        async with self._validating:
            return await asyncio.to_thread(validated, self._parts.catalog, config, self._parts.view)

    async def _valid(self, config: Mapping[str, str | None]) -> dict[str, str]:
        infos = await self.validate(config)
        if infos.errors:
            errors = "".join(f"\n{error}" for error in infos.errors)
            raise Refused(
                400,
                "Connector configuration is invalid and contains the following "
                f"{len(infos.errors)} error(s):{errors}{ERRORS_AT}",
            )
        return {name: text for name, text in config.items() if text is not None}

    # -- offsets --------------------------------------------------------------------------------------

    async def offsets(self, connector: str) -> dict[str, Any]:
        """The committed offsets of a connector."""
        kept, owner = await self._offsets_of(connector)
        found = await _offsets(kept.committed(owner))
        return {"offsets": [{"partition": each.partition, "offset": each.offset} for each in found]}

    async def alter_offsets(self, connector: str, offsets: Sequence[ConnectorOffset]) -> dict[str, str]:
        """Change some offsets of a stopped connector."""
        decisions.require_stopped(self.image, connector)
        kept, owner = await self._offsets_of(connector)
        return await self._change_offsets(connector, kept.alter(owner, offsets))

    async def reset_offsets(self, connector: str) -> dict[str, str]:
        """Forget the offsets of a stopped connector."""
        decisions.require_stopped(self.image, connector)
        kept, owner = await self._offsets_of(connector)
        return await self._change_offsets(connector, kept.reset(owner))

    async def _change_offsets(self, connector: str, change: Awaitable[str]) -> dict[str, str]:
        # The generation after the offsets: a kill between the two leaves offsets that the next start takes,
        # with a ledger that a repeated request makes void.
        message = await _offsets(change)
        await self.write(lambda: decisions.next_generation(self.image, connector))
        return {"message": message}

    async def _offsets_of(self, connector: str) -> tuple[ConnectorOffsets, OffsetsOwner]:
        stored = self._config(connector)
        config = await self._parts.resolved(stored)
        offsets = self._parts.offsets
        kept = offsets.sink if self._type(config) == Kind.SINK else offsets.source
        plugin = self._parts.catalog.find(config.get("connector.class", ""), Kind.SOURCE)
        if plugin is not None and plugin.engine is Engine.SPARK:
            kept = offsets.checkpoint
        return kept, self._parts.owner(connector, config)

    # -- signals --------------------------------------------------------------------------------------

    async def signal(self, connector: str, body: Any) -> dict[str, Any]:
        """Give a connector of a database's changes a signal, by its topic. Not in Connect."""
        config = await self._parts.resolved(self._config(connector))
        plugin = self._parts.catalog.find(config.get("connector.class", ""), Kind.SOURCE)
        if plugin is None or plugin.engine is not Engine.PYTHON:
            raise Refused(409, f"Connector {connector} takes no signals")
        owner = self._parts.owner(connector, config)
        start = Start(Run(owner.name, 0, 0), Role.SOURCE_TASK, owner.config, owner.worker)
        try:
            sent = await asyncio.to_thread(send_signal, plugin, start, body)
        except BadSignal as problem:
            raise Refused(400, f"The signal makes no sense: {problem}") from None
        except (NotTaken, ConfigError) as problem:
            raise Refused(409, f"Connector {connector}: {problem}") from None
        except UserError as problem:
            raise Refused(500, str(problem)) from None
        return {"id": sent.id, "topic": sent.topic, "partition": 0, "offset": sent.offset}

    # -- loggers --------------------------------------------------------------------------------------

    def loggers(self) -> dict[str, Any]:
        """The loggers of this worker."""
        return self._parts.loggers.all()

    def logger(self, name: str) -> dict[str, Any]:
        """One logger."""
        found = self._parts.loggers.one(name)
        if found is None:
            raise Refused(404, f"Logger {name} not found.")
        return found

    def set_level(self, name: str, level: str) -> Sequence[str]:
        """Set the level of a logger here."""
        _require_level(level)
        return self._parts.loggers.set(name, level)

    async def set_level_of_all(self, name: str, level: str) -> None:
        """Set the level of a logger on all workers."""
        _require_level(level)
        await self.write(lambda: Decided([LoggerLevel(name, level.upper())], None))


def _require_level(level: str) -> None:
    if level.upper() not in LEVELS:
        raise Refused(404, f"invalid log level '{level}'.")


def _told(status: Status, state: State) -> dict[str, Any]:
    told: dict[str, Any] = {"state": state, "worker_id": status.worker_id}
    if status.trace:
        told["trace"] = status.trace
    if status.version:
        told["version"] = status.version
    return told


def _restarted(request: RestartRequest) -> Callable[[TaskId, State], State]:
    def planned(id: TaskId, state: State) -> State:
        is_meant = id.task == CONNECTOR or request.include_tasks
        fits = not request.only_failed or state is State.FAILED
        return State.RESTARTING if is_meant and fits else state

    return planned


async def _offsets(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except BadOffsets as problem:
        raise Refused(400, str(problem)) from None
    except OffsetsFailed as problem:
        raise Refused(500, str(problem)) from None
