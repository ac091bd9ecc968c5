"""The Spark of a host process: one session for all its connectors, with the jars that these need.

A session's jars can't be added to while it runs, so a connector that needs more than it has makes it begin
again (`Engine.has` tells). Iceberg's and Delta's are there from the start wherever they can be fetched.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.config.errors import ConfigError
from ottla.connect.spark import host_settings as settings
from ottla.pipeline.query.query import PipelineQuery, QueryRunner, Watcher
from ottla.pipeline.spark.lake_jars import Lake, lake_jars
from ottla.pipeline.spark.maven import MavenError
from ottla.pipeline.spark.session import SparkPipelineSession, SparkSettings, installed_spark, start_session
from ottla.pipeline.spark.spark_jars import SparkJarsError

USUAL: Final = frozenset({Lake.ICEBERG, Lake.DELTA})
_PREFIX: Final = "host-"
_EXTENSIONS: Final = {
    Lake.ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    Lake.DELTA: "io.delta.sql.DeltaSparkSessionExtension",
}

_log = logging.getLogger(__name__)


class Engine:
    """A session and the runner of its queries. Made by `begin`, given up by `close`."""

    def __init__(
        self, session: SparkPipelineSession, lakes: frozenset[Lake], queries: QueryRunner, directory: Path
    ) -> None:
        self.session = session
        self.lakes = lakes
        self.queries = queries
        self._directory = directory

    @classmethod
    def begin(
        cls,
        needed: frozenset[Lake],
        worker: Mapping[str, str],
        on_progress: Watcher,
        on_end: Callable[[PipelineQuery], None],
    ) -> Engine:
        """Start Spark. Raises UserError."""
        lakes, jars = _jars(needed)
        for each in filter(None, (text.strip() for text in worker.get(settings.JARS.name, "").split(","))):
            if not Path(each).is_file():
                raise ConfigError(f"{settings.JARS.name}={each}: there is no such file")
            jars.append(Path(each).absolute())
        base = Path(
            worker.get(settings.DIRECTORY.name) or Path(tempfile.gettempdir()) / f"ottla-connect-{_user()}"
        )
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_left_behind(base)
        directory = base / f"{_PREFIX}{os.getpid()}"
        given = {name: text for name, text in worker.items() if name.startswith(settings.PREFIX)}
        wanted = SparkSettings(
            "ottla connect",
            directory,
            master=worker.get(settings.MASTER.name) or None,
            driver_memory=worker.get(settings.DRIVER_MEMORY.name) or settings.DRIVER_MEMORY.default,
            properties=_properties(lakes) | given,
            python_tasks=False,
            more_jars=jars,
            # a leash that kills its host's group must be sure of the JVM too: others may write by then
            own_session=False,
        )
        session = start_session(wanted)
        queries = QueryRunner(session.spark, on_progress=on_progress, on_end=on_end)
        return cls(session, lakes, queries, directory)

    def has(self, needed: frozenset[Lake]) -> bool:
        """Whether the session can be used for some lakes: it has their jars, and is alive."""
        return needed <= self.lakes and self.session.alive

    def checkpoint(self, owner: str, run: str) -> Path:
        """A new directory for a run's checkpoint; those of the connector's earlier runs are removed."""
        for path in self.session.checkpoints.glob(f"{owner}.*"):
            shutil.rmtree(path, ignore_errors=True)
        return self.session.checkpoints / f"{owner}.{run}"

    def close(self, timeout_seconds: float) -> None:
        """Stop the queries, then Spark."""
        self.queries.close(timeout_seconds)
        self.session.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def _jars(needed: frozenset[Lake]) -> tuple[frozenset[Lake], list[Path]]:
    version = installed_spark()[1]
    try:
        return needed | USUAL, lake_jars(needed | USUAL, version)
    except (MavenError, SparkJarsError) as problem:
        if needed >= USUAL:
            raise
        _log.info("Spark starts without what no connector needs yet: %s", problem)
        return needed, lake_jars(needed, version)


def _properties(lakes: frozenset[Lake]) -> dict[str, str]:
    properties = {
        # names of fields are told apart as in JSON
        "spark.sql.caseSensitive": "true",
        # a large batch of one connector does not hold up the others
        "spark.scheduler.mode": "FAIR",
        # files of a few directories are written side by side, without sorting the rows
        "spark.sql.maxConcurrentOutputFileWriters": "64",
    }
    extensions = [_EXTENSIONS[lake] for lake in (Lake.ICEBERG, Lake.DELTA) if lake in lakes]
    if extensions:
        properties["spark.sql.extensions"] = ",".join(extensions)
    if Lake.DELTA in lakes:
        # a table's state is read in 50 tasks by default, which takes seconds on a few cores
        properties["spark.databricks.delta.snapshotPartitions"] = "4"
        # through fs.file.impl, whose renames replace no commit; Delta's own choice for file: does not ask it
        properties["spark.delta.logStore.file.impl"] = "io.delta.storage.LocalLogStore"
        properties["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return properties


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def _remove_left_behind(base: Path) -> None:
    """Remove the directories of hosts that were killed."""
    for path in base.glob(f"{_PREFIX}*"):
        number = path.name.removeprefix(_PREFIX)
        if not number.isdecimal() or int(number) == os.getpid():
            continue
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue
