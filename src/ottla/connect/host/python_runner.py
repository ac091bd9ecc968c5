"""Runs connectors and tasks as threads of this process, one each."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.connect.host import connector_run
from ottla.connect.host.control import Control
from ottla.connect.host.conversion import Conversion
from ottla.connect.host.errors import Stopped, trace_of
from ottla.connect.host.logs import log_name, name_thread
from ottla.connect.host.messages import Ended, Role, Run, Start
from ottla.connect.host.own_task import OwnTask, RunsItself
from ottla.connect.host.runner import Tell
from ottla.connect.host.settings import plugin_settings
from ottla.connect.host.sink_task import SinkTask
from ottla.connect.host.source_task import SourceTask
from ottla.connect.plugins.api import NamesConverters
from ottla.connect.plugins.catalog import Catalog, Engine, Kind, Plugin, installed_plugins

CLASS: Final = "connector.class"
CLOSE_SECONDS: Final = 5.0
_KINDS: Final = {Role.SOURCE_TASK: (Kind.SOURCE,), Role.SINK_TASK: (Kind.SINK,)}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Thread:
    control: Control
    thread: threading.Thread


class PythonRunner:
    """See Runner. A run's thread makes the connector, uses it and closes it."""

    def __init__(self, tell: Tell, catalog: Catalog | None = None) -> None:
        self._tell = tell
        self._catalog = catalog
        self._turn = threading.Lock()
        self._runs: dict[Run, _Thread] = {}

    def start(self, order: Start) -> None:
        """See Runner."""
        control = Control(order.paused)
        name = log_name(order.run)
        thread = threading.Thread(target=self._run, args=(order, control, name), name=name, daemon=True)
        with self._turn:
            if order.run in self._runs:
                _log.error("%s runs already", order.run)
                return
            self._runs[order.run] = _Thread(control, thread)
        try:
            thread.start()
        except RuntimeError as problem:
            with self._turn:
                del self._runs[order.run]
            self._tell(Ended(order.run, trace_of(problem)))

    def stop(self, run: Run) -> None:
        """See Runner."""
        if (found := self._find(run)) is not None:
            found.control.stop()

    def pause(self, run: Run) -> None:
        """See Runner."""
        if (found := self._find(run)) is not None:
            found.control.pause(True)

    def resume(self, run: Run) -> None:
        """See Runner."""
        if (found := self._find(run)) is not None:
            found.control.pause(False)

    def close(self) -> None:
        """See Runner."""
        with self._turn:
            runs = list(self._runs.values())
        for each in runs:
            each.control.stop()
        until = time.monotonic() + CLOSE_SECONDS
        for each in runs:
            each.thread.join(max(0.0, until - time.monotonic()))

    def _find(self, run: Run) -> _Thread | None:
        with self._turn:
            return self._runs.get(run)

    def _run(self, order: Start, control: Control, name: str) -> None:
        name_thread(name)
        trace: str | None = None
        try:
            self._run_role(order, control)
        except Stopped:
            pass
        except BaseException as problem:
            _log.exception("the task fails")
            trace = trace_of(problem)
        with self._turn:
            self._runs.pop(order.run, None)
        self._tell(Ended(order.run, trace))

    def _run_role(self, order: Start, control: Control) -> None:
        catalog = installed_plugins() if self._catalog is None else self._catalog
        plugin = _plugin(catalog, order)
        connector_class: Any = plugin.load()
        connector = connector_class(plugin_settings(connector_class.TABLE, order))
        try:
            match order.role:
                case Role.CONNECTOR if plugin.kind is Kind.SOURCE:
                    connector_run.run_source(order, self._tell, control, connector)
                case Role.CONNECTOR:
                    connector_run.run_sink(order, self._tell, control, connector)
                case Role.SOURCE_TASK if (own := _own_task(connector, order)) is not None:
                    own.run(self._tell, control)
                case Role.SOURCE_TASK:
                    given = connector.CONVERTERS if isinstance(connector, NamesConverters) else {}
                    conversion = Conversion(catalog, {**given, **order.config}, order.worker)
                    SourceTask(order, self._tell, control, connector, conversion).run()
                case Role.SINK_TASK:
                    conversion = Conversion(catalog, order.config, order.worker)
                    SinkTask(order, self._tell, control, connector, conversion).run()
        finally:
            try:
                connector.close()
            except Exception:
                _log.exception("the connector failed as it was closed")


def _own_task(connector: Any, order: Start) -> OwnTask | None:
    return connector.own_task(order) if isinstance(connector, RunsItself) else None


def _plugin(catalog: Catalog, order: Start) -> Plugin:
    name = order.config.get(CLASS, "")
    plugin = catalog.find(name, *_KINDS.get(order.role, (Kind.SOURCE, Kind.SINK)))
    if plugin is None:
        raise ConfigError(f"Failed to find any class that implements Connector and which name matches {name}")
    if plugin.engine is not Engine.PYTHON:
        raise ConfigError(f"{name} runs on Spark, not in a host for Python tasks")
    return plugin
