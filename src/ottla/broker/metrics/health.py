"""The health of a node: is it alive, and can it do its work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

from ottla.core.settings import broker_settings
from ottla.metrics.health import Check, Health, Verdict

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.controller.controller import Controller
    from ottla.broker.controller.lifecycle import BrokerLifecycle
    from ottla.broker.controller.metadata_quorum import MetadataQuorum
    from ottla.broker.supervisor import Supervisor
    from ottla.core.image.image import MetadataImage
    from ottla.storage.log_directory import LogDirectory

PROBE_FILE: Final = ".health-check"
MOST_RECORDS_BEHIND: Final = 1_000
"""Committed metadata records that a node may lack for a moment without being called behind."""


class HealthNode(Protocol):
    """What is asked of the node. Parts are not there before the start has come to them."""

    @property
    def config(self) -> BrokerConfig:
        """The settings."""
        ...

    @property
    def node_id(self) -> int:
        """The node's number."""
        ...

    @property
    def log_directory(self) -> LogDirectory:
        """The data directory."""
        ...

    @property
    def quorum(self) -> MetadataQuorum:
        """This node's part in the quorum."""
        ...

    @property
    def controller(self) -> Controller:
        """This node's replica of the metadata."""
        ...

    @property
    def lifecycle(self) -> BrokerLifecycle:
        """How far the broker has come."""
        ...

    @property
    def image(self) -> MetadataImage:
        """The metadata."""
        ...

    @property
    def supervisor(self) -> Supervisor:
        """The broker's tasks."""
        ...

    @property
    def controller_supervisor(self) -> Supervisor:
        """The metadata's tasks."""
        ...


def node_health(node: HealthNode) -> Health:
    """The checks of a node that starts, runs or stops."""
    checks = _Checks(node)
    health = Health(
        alive=[
            Check("event-loop", lambda: Verdict(True, "the event loop turns: it has made this answer")),
            Check("background-tasks", checks.background_tasks),
            Check("log-directory", checks.log_directory, blocks=True),
        ],
        ready=[Check("metadata-quorum", checks.quorum), Check("metadata", checks.metadata)],
    )
    if node.config.is_broker:
        health.ready.append(Check("broker", checks.broker))
    return health


class _Checks:
    def __init__(self, node: HealthNode) -> None:
        self._node = node

    def background_tasks(self) -> Verdict:
        supervisors = (self._node.supervisor, self._node.controller_supervisor)
        for supervisor in supervisors:
            if supervisor.died is not None:
                return Verdict(False, f"the background task {supervisor.died} has died, the node stops")
        return Verdict(True, f"all {sum(each.running for each in supervisors)} background tasks run")

    def log_directory(self) -> Verdict:
        """Write a file, sync it and remove it, in a thread."""
        directory = getattr(self._node, "log_directory", None)
        if directory is None:
            return Verdict(True, "the log directory is not opened yet")
        path = directory.path / PROBE_FILE
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            try:
                os.write(descriptor, b"ottla\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
                os.unlink(path)
        except OSError as problem:
            return Verdict(False, f"{directory.path} can't be written: {problem.strerror or problem}")
        return Verdict(True, f"{directory.path} can be written")

    def quorum(self) -> Verdict:
        quorum = getattr(self._node, "quorum", None)
        if quorum is None or quorum.core is None:
            return Verdict(False, "the metadata log is being opened")
        if quorum.failure is not None:
            return Verdict(False, f"the metadata quorum has failed on this node: {quorum.failure}")
        if quorum.leader_id < 0:
            return Verdict(False, f"no leader of the metadata quorum is known in epoch {quorum.epoch}")
        silence = 0.0 if quorum.is_leader or quorum.times is None else quorum.times.silence_seconds
        if silence * 1000 > self._node.config[broker_settings.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS]:
            return Verdict(
                False,
                f"node {quorum.leader_id}, the last leader of the metadata quorum, has not answered for "
                f"{silence:.1f} s",
            )
        return Verdict(True, f"node {quorum.leader_id} leads the metadata quorum in epoch {quorum.epoch}")

    def metadata(self) -> Verdict:
        controller = getattr(self._node, "controller", None)
        if controller is None or self._node.quorum.high_watermark < 0:
            return Verdict(False, "it is not known yet how much of the metadata is committed")
        left = controller.records_left
        if left > MOST_RECORDS_BEHIND:
            return Verdict(False, f"{left} committed metadata records are not applied yet")
        return Verdict(True, f"the metadata is applied up to offset {self._node.image.last_offset}")

    def broker(self) -> Verdict:
        node = self._node
        lifecycle = node.lifecycle
        match lifecycle.state.value:
            case "controlled shutdown" | "stopped":
                return Verdict(False, "the broker is stopping")
        if lifecycle.broker_epoch < 0:
            return Verdict(
                False, "the broker is not registered: it recovers its logs, or finds no controller"
            )
        registered = node.image.brokers.get(node.node_id)
        if registered is None or registered.broker_epoch != lifecycle.broker_epoch:
            return Verdict(False, "the metadata on this node lacks this broker's registration")
        if registered.fenced or lifecycle.fenced:
            return Verdict(False, "the broker is fenced: clients don't see it")
        return Verdict(True, f"registered with broker epoch {lifecycle.broker_epoch}, and not fenced")
