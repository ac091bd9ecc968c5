"""Brings together the assignment and the configurations: what this worker runs, and what it says of it.

Theory of operation. Every change (an assignment, a record of connect-configs, a run's end) marks the worker
as stale, and one turn of the event loop later it works out anew what is to run here. A source that tells its
partitions, or a sink that has begun, gets its tasks planned, and the plan goes to the leader, which writes it
where it is another one than before. A connector whose plan the leader refuses is told as FAILED with the
reason, since the tasks that could be are not there; so is, for as long as it lasts, one whose plan can't be
given to the leader for half a minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ottla.connect.core.config_image import all_of
from ottla.connect.core.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    Properties,
    RestartRequest,
    TaskRestart,
    TasksCommit,
)
from ottla.connect.core.errors import Refused
from ottla.connect.core.ids import CONNECTOR, State, TargetState, TaskId
from ottla.connect.core.planning import CLASS, sink_tasks, source_tasks, task_class, tasks_max
from ottla.connect.core.runs import Tell, Wanted
from ottla.connect.core.status_image import Status, TaskStatus, TopicStatus, tombstones
from ottla.connect.plugins.catalog import Catalog, Engine, Kind, Plugin
from ottla.connect.state.stores import ConfigStore, StatusStore
from ottla.connect.worker.loggers import Loggers
from ottla.connect.worker.supervision import Supervisor
from ottla.connect.worker.wire import Assignment
from ottla.replicated.errors import TooLarge

log = logging.getLogger("ottla.connect")

RETRY_SECONDS: Final = 1.0
PATIENT_ATTEMPTS: Final = 30
"""To give a plan to the leader, before the connector is told as FAILED."""
TIDY_SECONDS: Final = 2.0

Submit = Callable[[str, Sequence[Properties]], Awaitable[None]]
"""Gives the configurations of a connector's tasks to the leader. Raises Refused; others are transient."""


class Reconciler:
    """Satisfies `Assigned` of the group and `Watching` of the supervisor."""

    def __init__(
        self,
        configs: ConfigStore,
        statuses: StatusStore,
        catalog: Catalog,
        worker_id: str,
        loggers: Loggers,
        *,
        tracks_topics: bool,
    ) -> None:
        self._configs = configs
        self._statuses = statuses
        self.catalog: Final = catalog
        self._worker_id = worker_id
        self._loggers = loggers
        self._tracks_topics = tracks_topics
        self._supervisor: Supervisor | None = None
        self._submit: Submit | None = None
        self._rejoin: Callable[[], None] = lambda: None
        self._assigned: frozenset[TaskId] = frozenset()
        self._stopping: frozenset[TaskId] = frozenset()
        self._generation = -1
        self._told: dict[TaskId, Status] = {}
        self._partitions: dict[str, tuple[int | None, Sequence[Mapping[str, Any]]]] = {}
        self._plans: dict[str, Sequence[Properties]] = {}
        self._planned = asyncio.Event()
        self._attempts: dict[str, int] = {}
        """At the present plan of a connector, that the leader was not given yet."""
        self._unplanned: set[str] = set()
        """Connectors that are told as FAILED because of their plan."""
        self._is_due = False
        self._known: set[TaskId] = set()
        self.leads: Callable[[], bool] = lambda: True

    def connect(self, supervisor: Supervisor, submit: Submit, rejoin: Callable[[], None]) -> None:
        """Give it its counterparts, once."""
        self._supervisor, self._submit, self._rejoin = supervisor, submit, rejoin

    def begin(self) -> None:
        """All that was stored before the start is read: what comes from now on counts as news."""
        self._known = set(all_of(self._configs.image))
        self._configs.listen(self.replayed)

    # -- the group ------------------------------------------------------------------------------------

    @property
    def running(self) -> Sequence[TaskId]:
        """See Assigned."""
        supervisor = self._supervisor
        assert supervisor is not None
        still = {id for id in self._stopping if supervisor.has_run(id)}
        return sorted(self._assigned | still)

    def take(self, assignment: Assignment, generation: int) -> None:
        """See Assigned."""
        self._generation = generation
        before = self._assigned
        # All that this worker had and has not any more is stopped before it joins without it.
        self._assigned = frozenset(assignment.assigned)
        self._stopping = (self._stopping | before | frozenset(assignment.revoked)) - self._assigned
        log.info(
            "generation %d: %d connectors and tasks run here, %d are given up",
            generation,
            len(self._assigned),
            len(assignment.revoked),
        )
        self.reconcile()

    def lose(self) -> None:
        """See Assigned."""
        log.warning("the group was not heard of for a session: all that runs here is ended")
        self._assigned = self._stopping = frozenset()
        self._told.clear()
        assert self._supervisor is not None
        self._supervisor.drop_all()

    def lapsed(self) -> None:
        """See Watching."""
        self.lose()
        self._rejoin()

    @property
    def assigned(self) -> frozenset[TaskId]:
        """What is assigned to this worker."""
        return self._assigned

    # -- records --------------------------------------------------------------------------------------

    def replayed(self, record: ConfigRecord) -> None:
        """A record of connect-configs was replayed, after the start."""
        match record:
            case RestartRequest():
                self._restart(record)
            case TaskRestart(connector, task):
                assert self._supervisor is not None
                self._supervisor.restart([TaskId(connector, task)])
            case LoggerLevel(logger, level):
                self._loggers.set(logger, level)
            case ConnectorConfig() | TasksCommit():
                self._call_for_assignment()
        self.due()

    def _call_for_assignment(self) -> None:
        """Let the leader give out what is new: all workers join again at once, so that it is soon done."""
        configured = set(all_of(self._configs.image))
        if configured != self._known:
            self._known = configured
            self._rejoin()

    def _restart(self, request: RestartRequest) -> None:
        assert self._supervisor is not None
        image = self._statuses.image
        chosen = []
        for id in self._assigned:
            if id.connector != request.connector or (id.task != CONNECTOR and not request.include_tasks):
                continue
            status = self._told.get(id) or image.status(id)
            if not request.only_failed or (status is not None and status.state is State.FAILED):
                chosen.append(id)
        self._supervisor.restart(sorted(chosen))

    # -- what runs ------------------------------------------------------------------------------------

    def due(self) -> None:
        """Reconcile soon, once for all changes of this turn."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.reconcile)

    def reconcile(self) -> None:
        """Work out what is to run here, and have it run."""
        self._is_due = False
        assert self._supervisor is not None
        wanted = {}
        for id in sorted(self._assigned):
            found = self._wanted(id)
            if found is not None:
                wanted[id] = found
        self._supervisor.want(wanted)
        self.changed()
        self.tidy_up()

    def _wanted(self, id: TaskId) -> Wanted | None:
        image = self._configs.image
        config = image.config(id.connector)
        if config is None:
            return None
        target = image.target(id.connector)
        plugin = self.plugin(config)
        version = None if plugin is None else plugin.version
        if id.task != CONNECTOR and (
            target is TargetState.STOPPED or image.task_config(id.connector, id.task) is None
        ):
            return None
        return Wanted(image.revision(id), target, version)

    def plugin(self, config: Properties) -> Plugin | None:
        """The plugin of a configuration, None for one that this worker does not have."""
        return self.catalog.find(config.get(CLASS, ""), Kind.SINK, Kind.SOURCE)

    def changed(self) -> None:
        """See Watching."""
        if self._stopping:
            assert self._supervisor is not None
            supervisor = self._supervisor
            if not any(supervisor.has_run(id) for id in self._stopping):
                # Given up: others may have it.
                self._stopping = frozenset()
                self._rejoin()

    # -- statuses -------------------------------------------------------------------------------------

    def tell(self, told: Tell) -> None:
        """See Watching."""
        id = told.id
        status = Status(
            told.state, self._worker_id, self._generation, told.trace, told.version, told.revision
        )
        if told.state is State.FAILED:
            log.error("%s has failed: %s", id, (told.trace or "").strip().rpartition("\n")[2])
        if told.state is State.UNASSIGNED:
            self._told.pop(id, None)
            if not self._exists(id) or self._configs.image.target(id.connector) is TargetState.STOPPED:
                return
            present = self._statuses.image.status(id)
            if present is not None and present.worker_id != self._worker_id:
                return  # another worker has it already
        else:
            self._told[id] = status
        self._statuses.put([TaskStatus(id, status)])

    def _exists(self, id: TaskId) -> bool:
        image = self._configs.image
        if id.task == CONNECTOR:
            return id.connector in image
        return id.connector in image and id.task < image.task_count(id.connector)

    def topics(self, id: TaskId, topics: Sequence[str]) -> None:
        """See Watching."""
        known = self._statuses.image.topics(id.connector)
        if self._tracks_topics:
            now_ms = int(time.time() * 1000)
            new = [topic for topic in topics if topic not in known]
            self._statuses.put([TopicStatus(topic, id.connector, id.task, now_ms) for topic in new])

    async def tidy(self) -> None:
        """See to it for ever that the statuses are those of what there is."""
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            self.tidy_up()

    def tidy_up(self) -> None:
        """The leader takes away what belongs to nothing; all tell again what was lost of theirs."""
        image, statuses = self._configs.image, self._statuses.image
        if self.leads():
            for connector in list(statuses.connectors):
                is_gone = connector not in image
                self._statuses.put(tombstones(statuses, connector, is_gone, image.task_count(connector)))
        for id, status in list(self._told.items()):
            if not self._exists(id) or id not in self._assigned:
                del self._told[id]
            elif statuses.status(id) != status:
                self._statuses.put([TaskStatus(id, status)])

    # -- plans ----------------------------------------------------------------------------------------

    def began(self, id: TaskId) -> None:
        """See Watching."""
        if id.task == CONNECTOR:
            self._plan(id.connector)

    def partitions(self, id: TaskId, partitions: Sequence[Mapping[str, Any]]) -> None:
        """See Watching."""
        self._partitions[id.connector] = (self._begun(id.connector), partitions)
        self._plan(id.connector)

    def _begun(self, connector: str) -> int | None:
        """The revision for which the connector's run here was started."""
        assert self._supervisor is not None
        return self._supervisor.revision(TaskId(connector, CONNECTOR))

    def _plan(self, connector: str) -> None:
        """The tasks of a connector whose run here has begun, or has told other partitions."""
        image = self._configs.image
        config = image.config(connector)
        plugin = None if config is None else self.plugin(config)
        if config is None or plugin is None or image.target(connector) is not TargetState.STARTED:
            return
        revision = image.revision(TaskId(connector, CONNECTOR))
        if self._begun(connector) != revision:
            return  # the run of the present configuration is still to come
        name = task_class(plugin.names[0])
        most = tasks_max(config)
        if plugin.kind is Kind.SOURCE:
            told_for, partitions = self._partitions.get(connector, (None, ()))
            if told_for != revision:
                return  # those of a former configuration
            plan: Sequence[Properties] = source_tasks(config, name, partitions, most)
        else:
            # A streaming query reads all partitions of its topics, whatever tasks.max says.
            plan = sink_tasks(config, name, 1 if plugin.engine is Engine.SPARK else most)
        self._plans[connector] = plan
        self._attempts.pop(connector, None)
        self._planned.set()

    async def submit_plans(self) -> None:
        """Give plans to the leader, for ever; those that it can't be given now, again later."""
        assert self._submit is not None
        while True:
            await self._planned.wait()
            self._planned.clear()
            for connector, plan in list(self._plans.items()):
                if await self._submitted(connector, plan) and self._plans.get(connector) is plan:
                    del self._plans[connector]
            if self._plans and not self._planned.is_set():
                await asyncio.sleep(RETRY_SECONDS)
                self._planned.set()

    async def _submitted(self, connector: str, plan: Sequence[Properties]) -> bool:
        assert self._submit is not None
        if TaskId(connector, CONNECTOR) not in self._assigned:
            self._unplanned.discard(connector)
            self._attempts.pop(connector, None)
            return True  # another worker plans it
        try:
            await self._submit(connector, plan)
        except Refused as refused:
            log.info("the tasks of %s are not taken: %s", connector, refused.message)
            self._tell_unplanned(connector, f"The leader does not take the tasks: {refused.message}")
        except TooLarge:
            self._tell_unplanned(connector, "The configuration of a task is larger than a record may be")
        except Exception as problem:
            log.warning("the tasks of %s can't be given to the leader now: %s", connector, problem)
            attempts = self._attempts[connector] = self._attempts.get(connector, 0) + 1
            if attempts == PATIENT_ATTEMPTS:
                told = f"{type(problem).__name__}: {problem}"
                self._tell_unplanned(connector, f"The tasks can't be given to the leader: {told}")
            return False
        else:
            self._tell_planned(connector)
        self._attempts.pop(connector, None)
        return True

    def _tell_unplanned(self, connector: str, reason: str) -> None:
        """The connector's tasks can't be made: it is FAILED, unless it is gone or stopped meanwhile."""
        if self._tell_of_plan(connector, State.FAILED, reason):
            self._unplanned.add(connector)

    def _tell_planned(self, connector: str) -> None:
        """The tasks are made at last."""
        if connector in self._unplanned:
            self._unplanned.discard(connector)
            self._tell_of_plan(connector, State.RUNNING, None)

    def _tell_of_plan(self, connector: str, state: State, trace: str | None) -> bool:
        image, id = self._configs.image, TaskId(connector, CONNECTOR)
        config = image.config(connector)
        if config is None or image.target(connector) is not TargetState.STARTED:
            return False
        revision = image.revision(id)
        if id not in self._assigned or self._begun(connector) != revision:
            return False  # the state of another run
        plugin = self.plugin(config)
        self.tell(Tell(id, state, trace, None if plugin is None else plugin.version, revision))
        return True
