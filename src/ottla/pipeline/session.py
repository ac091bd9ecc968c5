"""Start Spark, and end it with everything it started.

`start_session` makes the one Spark session of a process: it finds a Java (java_runtime), the connector's jars
(spark_jars), launches the JVM with its error stream in a file, and connects PySpark to it. The JVM reads from
a pipe that this process holds: when this process dies, even by SIGKILL, the pipe closes and the JVM leaves,
and with the JVM go Spark's Python workers. `SparkPipelineSession.close` waits for that.

Under `directory` live: `checkpoints/` (kept: a query's progress), `warehouse/`, `logs/` (Spark's own log and
the JVM's last words), `scratch/` (shuffle files, emptied at each start) and `spark.lock`. The lock is taken
by the JVM itself, because a JVM may outlive a killed Python by a moment and still write to the checkpoints:
the next start waits for it to be gone, so that two JVMs never write to one checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipeline.java_runtime import JavaRuntime, find_java
from ottla.pipeline.maven import JarProgress
from ottla.pipeline.spark_jars import kafka_connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_TIMEOUT_SECONDS = 60.0
CLOSE_TIMEOUT_SECONDS = 30.0

log = logging.getLogger("ottla.pipeline")

_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LOG4J2 = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log_file}
appender.file.filePattern = {log_file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
"""


class SparkError(Exception):
    """Spark could not be started; the message says why and where its log is."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What a session is made from.

    application: Spark's application name. directory: where all of its files go. master: any master that
    spark-submit takes. shuffle_partitions: tasks a shuffle (and state stores a stateful query) has.
    driver_memory: the JVM's heap in Spark's notation. quick_start: let the JVM compile quickly rather than
    well, for runs of minutes (measured: half the processor time of a short run). jars: jars in place of the
    ones for the installed PySpark. properties: any further Spark properties; they have the last word.
    """

    application: str
    directory: Path
    master: str = "local[*]"
    shuffle_partitions: int = 4
    driver_memory: str = "1g"
    quick_start: bool = False
    jars: Sequence[Path] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SparkPipelineSession:
    """A running Spark and the JVM process behind it."""

    spark: SparkSession
    java: JavaRuntime
    directory: Path
    _process: Any
    _lock: Any

    @property
    def checkpoints(self) -> Path:
        return self.directory / "checkpoints"

    @property
    def alive(self) -> bool:
        """Whether the JVM still runs."""
        return self._process is None or self._process.poll() is None

    def close(self, timeout_seconds: float = CLOSE_TIMEOUT_SECONDS, *, kill: bool = False) -> None:
        """Stop Spark and wait for its JVM to leave; kill it when it does not. Safe to call twice.

        `kill` ends the JVM without asking, for when what it waits for will not come.
        """
        from pyspark import SparkContext

        if self._process is None:
            return
        process, self._process = self._process, None
        if kill:
            process.kill()
            process.wait()
        with contextlib.suppress(Exception):  # a JVM that is gone cannot be asked to stop
            self.spark.stop()
        with contextlib.suppress(Exception):
            SparkContext._gateway.shutdown()  # type: ignore[union-attr]
        SparkContext._gateway = None
        SparkContext._jvm = None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(timeout_seconds)
        except Exception:
            process.kill()
            process.wait()


def start_session(
    settings: SparkSettings, progress: Callable[[JarProgress], None] | None = None
) -> SparkPipelineSession:
    """Start the session of this process; there can be one at a time.

    Raises SparkError, JavaError, SparkJarsError or MavenError with a message for the user.
    """
    import pyspark

    if settings.master.startswith("sc://"):
        raise SparkError(
            f"{settings.master} is a Spark Connect address: give a master of spark-submit, like local[*]"
        )
    java = find_java()
    jars = list(settings.jars) if settings.jars is not None else None
    if jars is None:
        jars = kafka_connector_jars(pyspark.__version__, progress)
    directory = settings.directory.absolute()
    for name in ("checkpoints", "warehouse", "logs", "scratch"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    properties = _properties(settings, directory, jars)
    return _launch(settings, directory, java, properties)


def _launch(
    settings: SparkSettings, directory: Path, java: JavaRuntime, properties: Mapping[str, str]
) -> SparkPipelineSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise SparkError("this process has a Spark session already: close it first")
    jvm_log = directory / "logs" / "jvm.log"
    conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))
    with jvm_log.open("ab") as stderr, _environment(java):
        try:
            gateway: Any = launch_gateway(
                conf,
                {  # type: ignore[no-untyped-call]
                    "stderr": stderr
                },
            )
        except Exception as error:
            raise SparkError(f"Java at {java.executable} could not start Spark: see {jvm_log}") from error
    process = gateway.proc
    interrupt_handler = signal.getsignal(signal.SIGINT)
    try:
        lock = _lock_directory(gateway, directory / "spark.lock")
        _empty(directory / "scratch")
        context = SparkContext(conf=conf, gateway=gateway)
        # Its server of accumulators prints a traceback to standard error when the JVM goes away.
        context._accumulatorServer.handle_error = _log_lost_connection  # type: ignore[method-assign]
        spark = SparkSession(context)
    except BaseException as error:
        SparkContext._gateway = None
        SparkContext._jvm = None
        process.kill()
        process.wait()
        if isinstance(error, SparkError) or not isinstance(error, Exception):
            raise
        raise SparkError(f"Spark did not start: {_first_line(error)} (log: {directory / 'logs'})") from error
    finally:
        # SparkContext puts its own handler in place of the application's.
        if interrupt_handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt_handler)
    return SparkPipelineSession(spark, java, directory, process, lock)


def _properties(settings: SparkSettings, directory: Path, jars: Sequence[Path]) -> dict[str, str]:
    log4j2 = directory / "logs" / "log4j2.properties"
    log4j2.write_text(
        _LOG4J2.format(log_file=(directory / "logs" / "spark.log").as_posix()), encoding="utf-8"
    )
    properties = {
        "spark.app.name": settings.application,
        "spark.master": settings.master,
        "spark.submit.deployMode": "client",
        "spark.driver.memory": settings.driver_memory,
        "spark.jars": ",".join(path.absolute().as_uri() for path in jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.sql.streaming.checkpointLocation": (directory / "checkpoints").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.driver.extraJavaOptions": " ".join(
            [
                f'"-Dlog4j2.configurationFile={log4j2.as_uri()}"',
                *(_QUICK_START if settings.quick_start else ()),
            ]
        ),
    }
    if settings.master.startswith("local"):
        # A laptop's host name need not resolve, and nobody else has to reach a local driver.
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return properties | dict(settings.properties)


@contextlib.contextmanager
def _environment(java: JavaRuntime) -> Iterator[None]:
    """The environment that Spark's launcher and PySpark read, put back afterwards except PYSPARK_PYTHON."""
    import pyspark

    os.environ["PYSPARK_PYTHON"] = sys.executable  # SparkContext reads it later; workers need our packages
    wanted = {"JAVA_HOME": str(java.home), "SPARK_HOME": os.path.dirname(pyspark.__file__)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _lock_directory(gateway: Any, path: Path) -> Any:
    """Have the JVM lock `path`, waiting for the JVM of a killed run to leave. Returns what keeps the lock."""
    channel = gateway.jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while (lock := channel.tryLock()) is None:
        if time.monotonic() > deadline:
            raise SparkError(f"another Spark uses {path.parent}: stop it, or give another directory")
        time.sleep(0.1)
    return channel, lock


def _log_lost_connection(request: object, client_address: object) -> None:
    log.debug("connection with the JVM lost", exc_info=True)


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
