"""Starts Spark, and ends it with all the processes that it started.

`start_session` makes the one Spark session of a process, on the master that `SparkSettings` resolves to: this
machine by default, any master of spark-submit (a standalone cluster, YARN, Kubernetes), or a Spark Connect
server (`sc://host:port`, spark_connect). Except for Connect, it finds a Java (java_runtime) and the
connector's jars (spark_jars), starts the JVM with its output in a file (jvm), and connects PySpark to it.
`begin_session` returns when the JVM is on its way, for work beside it; its `finish` does the rest.
When this process dies, even by SIGKILL, the JVM exits, and with it Spark's Python workers.
`SparkPipelineSession.close` waits for that.

`directory` holds `checkpoints/` (kept: the progress of queries), `warehouse/`, `logs/` (Spark's own log and
the JVM's standard error), `scratch/` (shuffle files, emptied at each start) and `spark.lock`. The JVM itself
takes the lock, because it may outlive a killed Python process for a moment and still write to the
checkpoints: the next start waits for it to exit, so that two JVMs never write to one checkpoint.

Settings come from these places, of which the last one wins: the defaults of this module; the properties file
(`SparkSettings.properties_file`, else OTTLA_SPARK_PROPERTIES; the format of spark-defaults.conf);
OTTLA_SPARK_MASTER for the master; the fields of `SparkSettings`; its `properties`.

On a cluster the checkpoints must be where every executor can write: give `checkpoint_location`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.config.errors import ConfigError
from ottla.config.sources import from_file
from ottla.pipeline.sink.exactly_once_settings import CLASSES_PROPERTY
from ottla.pipeline.spark import spark_daemon
from ottla.pipeline.spark.class_archive import ArchiveMaking
from ottla.pipeline.spark.errors import SparkError
from ottla.pipeline.spark.java_runtime import JavaRuntime, find_java
from ottla.pipeline.spark.jvm import JvmOrder, StartedJvm, start_jvm
from ottla.pipeline.spark.jvm_classes import LAKE_COMMITS_CLASS, classes_jar
from ottla.pipeline.spark.jvm_home import JvmHome
from ottla.pipeline.spark.known_classes import keep_known_classes
from ottla.pipeline.spark.low_latency import low_latency_properties
from ottla.pipeline.spark.maven import JarProgress
from ottla.pipeline.spark.paths import local_path
from ottla.pipeline.spark.patient_workers import patient_workers_jar
from ottla.pipeline.spark.spark_jars import LOCAL_FILES_CLASS, kafka_connector_jars, local_files_jar
from ottla.pipeline.spark.warm_up import start_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_ENVIRONMENT = "OTTLA_SPARK_MASTER"
PROPERTIES_ENVIRONMENT = "OTTLA_SPARK_PROPERTIES"
DEFAULT_MASTER = "local[*]"
LOCAL_TASK_ATTEMPTS = 4
LOCK_TIMEOUT_SECONDS = 60.0
CLOSE_TIMEOUT_SECONDS = 30.0
QUERY_STOP_TIMEOUT_SECONDS = 60
PYTHON_START_TIMEOUT_SECONDS = 120

log = logging.getLogger("ottla.pipeline")

_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# Measured on 2 cores, Kafka to Kafka: parallel and serial collection take the same processor time a record,
# and 10-20 % less than the default, G1; with the serial one the JVM takes half of the memory.
# The second compiler is asked for eight times later than by default: it took a quarter of the processor time
# until the first output, for code that runs at the start alone. What runs for each record gets there at once
# all the same. The last option saves full collections for the first 20, 40 and 80 MB of classes.
_COMPILED_LATER = (
    "-XX:Tier4InvocationThreshold=40000",
    "-XX:Tier4MinInvocationThreshold=4800",
    "-XX:Tier4CompileThreshold=120000",
    "-XX:Tier4BackEdgeThreshold=320000",
    "-XX:MetaspaceSize=256m",
)
_LONG_RUN = ("-XX:+UseParallelGC", *_COMPILED_LATER)
_LONG_RUN_ON_FEW_CORES = ("-XX:+UseSerialGC", *_COMPILED_LATER)
_FEW_CORES = 2
_VERSION = re.compile(r"""^__version__[^=\n]*=\s*["']([^"']+)["']""", re.MULTILINE)
_TASK_THREADS = re.compile(r"local\[(\*|\d+)")
_LOCAL_THREADS = re.compile(r"local(?:\[(\*|\d+)\])?")
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


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The settings of a session.

    application: Spark's application name. directory: for all of the session's files. master: any master
    that spark-submit takes, or a Spark Connect server as sc://host:port; None for OTTLA_SPARK_MASTER, else
    `spark.master` of the properties, else all cores of this machine. shuffle_partitions: the number of
    tasks of a shuffle (and of state stores of a stateful query). driver_memory: the JVM's heap in Spark's
    notation. quick_start: let the JVM compile quickly rather than well, for runs of minutes (measured: half
    the processor time of a short run). jars: replace the jars for the installed PySpark. more_jars: beside
    those, such as a lake's. properties: further Spark properties, which override all others. python_tasks:
    whether tasks will run Python, so that its processes are started at once. properties_file: a file of
    properties, as spark-defaults.conf. checkpoint_location: the URI under which queries keep their
    checkpoints, None for `directory`. own_session: whether the JVM leaves this process's group (`JvmOrder`).
    """

    application: str
    directory: Path
    master: str | None = None
    shuffle_partitions: int = 4
    driver_memory: str = "1g"
    quick_start: bool = False
    jars: Sequence[Path] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    python_tasks: bool = True
    properties_file: Path | None = None
    checkpoint_location: str | None = None
    more_jars: Sequence[Path] = ()
    own_session: bool = True


@dataclass(slots=True)
class SparkPipelineSession:
    """A running Spark and the JVM process behind it.

    java: the JVM's runtime; None on Spark Connect, whose server has its own. master: the resolved master.
    """

    spark: SparkSession
    java: JavaRuntime | None
    directory: Path
    _process: Any
    _lock: Any
    master: str = DEFAULT_MASTER
    _checkpoint_location: str | None = None
    _archiving: ArchiveMaking | None = None

    @property
    def checkpoints(self) -> Path:
        """The local directory for checkpoints; it is not used if `checkpoint_location` is given."""
        return self.directory / "checkpoints"

    @property
    def is_connect(self) -> bool:
        """Whether this is a Spark Connect session: without an own JVM, a `SparkContext` or py4j."""
        return is_connect_master(self.master)

    @property
    def runtime(self) -> str:
        """The runtime in a few words: the Java, or the address of the Spark Connect server."""
        if self.java is None:
            return f"Spark Connect at {self.master}"
        return f"Java {self.java.version} ({self.java.source})"

    def checkpoint_of(self, query_name: str) -> str:
        """The URI of a query's checkpoint."""
        base = self._checkpoint_location or self.checkpoints.as_uri()
        return f"{base.rstrip('/')}/{query_name}"

    @property
    def alive(self) -> bool:
        """Whether the JVM is still running."""
        return self._process is None or self._process.poll() is None

    def close(self, timeout_seconds: float = CLOSE_TIMEOUT_SECONDS, *, kill: bool = False) -> None:
        """Stop Spark and wait for its JVM to exit; kill it if it does not. Safe to call twice.

        `kill` ends the JVM at once, for a JVM that would wait for a broker in vain.
        """
        from pyspark import SparkContext

        if self.is_connect:
            from ottla.pipeline.spark.spark_connect import disconnect

            disconnect(self.spark)
            return
        if self._process is None:
            return
        process, self._process = self._process, None
        if kill:
            process.kill()
            process.wait()
        with contextlib.suppress(Exception):  # a JVM that has exited can't be asked to stop
            self.spark.stop()
        _forget_context()
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
        if self._archiving is not None:
            self._archiving.close()


@dataclass(slots=True)
class StartingSession:
    """A session whose JVM is on its way. Call `finish` or `abandon`."""

    settings: SparkSettings
    master: str
    _finish: Callable[[], SparkPipelineSession]
    _abandon: Callable[[], None]

    def finish(self) -> SparkPipelineSession:
        """The session. Raises SparkError with a message for the user; nothing runs then."""
        return self._finish()

    def abandon(self) -> None:
        """End the JVM. Safe to call twice."""
        self._abandon()


def start_session(
    settings: SparkSettings, progress: Callable[[JarProgress], None] | None = None
) -> SparkPipelineSession:
    """Start the session of this process; there can be one at a time.

    Raises SparkError, JavaError, SparkJarsError or MavenError with a message for the user.
    """
    return begin_session(settings, progress).finish()


def begin_session(
    settings: SparkSettings, progress: Callable[[JarProgress], None] | None = None
) -> StartingSession:
    """Start the JVM of a session, and do not wait for it. Raises as `start_session` does."""
    _check_no_other_session()
    wanted = requested_properties(settings)
    master = wanted["spark.master"]
    directory = settings.directory.absolute()
    if is_connect_master(master):
        finish = partial(_connected, settings, directory, wanted, progress)
        return StartingSession(settings, master, finish, lambda: None)
    java = find_java()
    spark_home, version = installed_spark()
    jars = list(settings.jars) if settings.jars is not None else kafka_connector_jars(version, progress)
    local_files = None
    if settings.jars is None and _on_one_machine(master):
        local_files = local_files_jar(progress)
    own_classes = classes_jar(java, spark_home, jars, local_files)
    jars += settings.more_jars
    if (
        _in_one_jvm(master)
        and settings.jars is None
        and (patient := patient_workers_jar(spark_home)) is not None
    ):
        jars.insert(0, patient)
    if own_classes is not None:
        jars.append(own_classes)
        wanted |= _classes_property(wanted, own_classes)
    if local_files is not None:
        is_ours = own_classes is not None and _in_one_jvm(master)
        wanted = with_local_files(wanted, local_files, LAKE_COMMITS_CLASS if is_ours else LOCAL_FILES_CLASS)
    for name in ("checkpoints", "warehouse", "logs", "scratch"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    properties = _properties(settings, directory, jars, wanted)
    home = None
    if _in_one_jvm(master):
        home = JvmHome.of(java, spark_home, _paths(properties.get("spark.driver.extraClassPath", "")))
    python = _workers_python(properties)
    log_path = directory / "logs" / "jvm.log"
    jvm = start_jvm(JvmOrder(java, spark_home, python, properties, log_path, home, settings.own_session))
    # SparkContext reads it later. Workers need our packages, which other machines have at other paths.
    os.environ["PYSPARK_PYTHON"] = python
    finish = partial(_launched, directory, properties, jvm, python_tasks=settings.python_tasks)
    return StartingSession(settings, master, finish, jvm.kill)


def _connected(
    settings: SparkSettings,
    directory: Path,
    wanted: dict[str, str],
    progress: Callable[[JarProgress], None] | None,
) -> SparkPipelineSession:
    """A session on a Spark Connect server."""
    from ottla.pipeline.spark.spark_connect import connect

    master = wanted["spark.master"]
    directory.mkdir(parents=True, exist_ok=True)
    wanted.setdefault("spark.sql.shuffle.partitions", str(settings.shuffle_partitions))
    spark = connect(master, wanted, settings.jars, progress)
    location = wanted.get("spark.sql.streaming.checkpointLocation")
    return SparkPipelineSession(spark, None, directory, None, None, master, location)


def installed_spark() -> tuple[Path, str]:
    """Where PySpark is, and its version, without the time that its import takes. Raises SparkError."""
    found = importlib.util.find_spec("pyspark")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if not places:
        raise SparkError("PySpark is not installed: pip install 'ottla[pipeline]'")
    home = Path(places[0])
    with contextlib.suppress(OSError):
        text = (home / "version.py").read_text(encoding="utf-8")
        if (match := _VERSION.search(text)) is not None:
            return home, match[1]
    import pyspark

    return home, pyspark.__version__


def is_connect_master(master: str) -> bool:
    """Whether a master is the address of a Spark Connect server."""
    return master.startswith("sc://")


def _classes_property(wanted: Mapping[str, str], classes: Path) -> dict[str, str]:
    """The property that says that JVMs have ottla's classes; none where `spark.jars` is the user's own."""
    if "spark.jars" in wanted and not _in_one_jvm(wanted["spark.master"]):
        return {}
    return {CLASSES_PROPERTY: classes.name}


def _on_one_machine(master: str) -> bool:
    return master.startswith("local")


def _in_one_jvm(master: str) -> bool:
    """Whether the driver runs the tasks, too: `local[4]`, and not `local-cluster[…]`."""
    return _on_one_machine(master) and not master.startswith("local-")


def _check_no_other_session() -> None:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        raise SparkError("this process has a Spark session already: close it first")


def requested_properties(settings: SparkSettings) -> dict[str, str]:
    """The user's properties, without defaults: from the file, the environment, the settings' properties."""
    properties = {"spark.master": DEFAULT_MASTER}
    name = os.environ.get(PROPERTIES_ENVIRONMENT)
    path = settings.properties_file or (Path(name).expanduser() if name else None)
    if path is not None:
        properties |= _read_properties(path)
    if os.environ.get(MASTER_ENVIRONMENT):
        properties["spark.master"] = os.environ[MASTER_ENVIRONMENT]
    if settings.master is not None:
        properties["spark.master"] = settings.master
    if settings.checkpoint_location is not None:
        properties["spark.sql.streaming.checkpointLocation"] = settings.checkpoint_location
    properties |= settings.properties
    properties["spark.master"] = _with_retries(properties["spark.master"])
    return properties


def with_local_files(
    wanted: Mapping[str, str], jar: Path, implementation: str = LOCAL_FILES_CLASS
) -> dict[str, str]:
    """The properties by which this jar's class, or one that stands on it, writes local files.

    The jar is added to the class path.
    """
    properties = {"spark.hadoop.fs.file.impl": implementation, **wanted}
    for name in ("spark.driver.extraClassPath", "spark.executor.extraClassPath"):
        properties[name] = os.pathsep.join(filter(None, (str(jar), wanted.get(name))))
    return properties


def _with_retries(master: str) -> str:
    """The master with retries of tasks: without them, in `local[n]`, a killed worker would end the query."""
    match = _LOCAL_THREADS.fullmatch(master)
    return f"local[{match[1] or 1},{LOCAL_TASK_ATTEMPTS}]" if match else master


def _read_properties(path: Path) -> dict[str, str]:
    try:
        given = from_file(path)
    except ConfigError as error:
        raise SparkError(str(error)) from None
    for key, each in given.items():
        if not key.startswith("spark."):
            raise SparkError(f"{each.origin}{key} is no Spark property, they begin with spark.")
    return {key: each.text.strip() for key, each in given.items()}


def _launched(
    directory: Path, properties: Mapping[str, str], jvm: StartedJvm, *, python_tasks: bool
) -> SparkPipelineSession:
    """The session in a JVM that was started. Raises SparkError."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    _import_module_of_literals()
    conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))
    interrupt_handler = signal.getsignal(signal.SIGINT)
    try:
        gateway = jvm.connect()
        lock = _lock_directory(gateway, directory / "spark.lock")
        _empty(directory / "scratch")
        _drop_checksums(directory / "checkpoints")
        context = SparkContext(conf=conf, gateway=gateway)
        # PySpark's accumulator server prints a traceback to standard error when the JVM exits.
        context._accumulatorServer.handle_error = _log_lost_connection  # type: ignore[method-assign]
        spark = SparkSession(context)
    except BaseException as error:
        _forget_context()
        SparkContext._gateway = None
        SparkContext._jvm = None
        jvm.kill()
        if isinstance(error, SparkError) or not isinstance(error, Exception):
            raise
        raise SparkError(f"Spark did not start: {_first_line(error)} (log: {directory / 'logs'})") from error
    finally:
        # SparkContext puts its own handler in place of the application's.
        if interrupt_handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt_handler)
    master = properties["spark.master"]
    keep_known_classes(spark)
    if _in_one_jvm(master) and python_tasks:
        start_workers(spark)
    session = SparkPipelineSession(spark, jvm.order.java, directory, jvm.process, lock, master)
    if jvm.loaded is not None and jvm.order.home is not None:
        session._archiving = ArchiveMaking(jvm.order.home, jvm.order.java.executable, jvm.loaded)
    location = properties["spark.sql.streaming.checkpointLocation"]
    if location != session.checkpoints.as_uri():
        session._checkpoint_location = location
    elif not _on_one_machine(master):
        log.warning(
            "the checkpoints are under %s, on this machine: executors on others cannot write there. "
            "Give a directory that all of them share as checkpoint_location.",
            location,
        )
    return session


def _forget_context() -> None:
    """Let go of PySpark's context where its JVM has died: its stop ends at the first word to the JVM.

    Without this no other session could be started in this process.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        with contextlib.suppress(Exception):  # asked again, it stops what is of Python alone
            context.stop()
    SparkContext._active_spark_context = None


def _import_module_of_literals() -> None:
    """Import what PySpark 4.1 imports for its first literal, without pandas: here the JVM is not up yet.

    The module imports pandas only to see whether it is there. That takes 0.3 s and 45 MB.
    """
    with contextlib.suppress(ImportError):
        from pyspark.sql.pandas import utils

        asked = utils.require_minimum_pandas_version
        if importlib.util.find_spec("pandas") is not None:
            utils.require_minimum_pandas_version = lambda: None
        try:
            importlib.import_module("pyspark.testing.utils")
        finally:
            utils.require_minimum_pandas_version = asked


def _properties(
    settings: SparkSettings, directory: Path, jars: Sequence[Path], wanted: Mapping[str, str]
) -> dict[str, str]:
    log4j2 = directory / "logs" / "log4j2.properties"
    log4j2.write_text(
        _LOG4J2.format(log_file=(directory / "logs" / "spark.log").as_posix()), encoding="utf-8"
    )
    jvm_options = (
        f'"-Dlog4j2.configurationFile={log4j2.as_uri()}"',
        *(_QUICK_START if settings.quick_start else _long_run(wanted["spark.master"])),
    )
    properties = {
        "spark.app.name": settings.application,
        "spark.submit.deployMode": "client",
        "spark.driver.memory": settings.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.sql.streaming.checkpointLocation": (directory / "checkpoints").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # upper() and lower() as Java's: those of the ICU library cost a second at their first use.
        "spark.sql.icu.caseMappings.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        spark_daemon.DAEMON_PROPERTY: spark_daemon.MODULE,
        # A Python process has so long to prove who it is; Spark's 15 s are short on a busy machine.
        "spark.python.authenticate.socketTimeout": f"{PYTHON_START_TIMEOUT_SECONDS}s",
        "spark.sql.streaming.stopTimeout": f"{QUERY_STOP_TIMEOUT_SECONDS}s",
        "spark.driver.extraJavaOptions": " ".join(jvm_options),
    }
    if _on_one_machine(wanted["spark.master"]):
        # A laptop's host name may not resolve, and no other machine has to reach a local driver.
        properties |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not _in_one_jvm(wanted["spark.master"]):
        properties["spark.jars"] = ",".join(path.absolute().as_uri() for path in jars)
    given = wanted.get("spark.driver.extraJavaOptions")
    properties |= wanted
    if _in_one_jvm(wanted["spark.master"]):
        # Neither served to executors nor copied for each, and in the archive of classes.
        paths = [*_paths(wanted.get("spark.driver.extraClassPath", "")), *(path.absolute() for path in jars)]
        properties["spark.driver.extraClassPath"] = os.pathsep.join(map(str, paths))
    local = local_path(properties["spark.sql.streaming.checkpointLocation"]) is not None
    properties = {**low_latency_properties(installed_spark()[1], local), **properties}
    if given:  # the user's are added: without the option for log4j2, Spark's log would go to the terminal
        properties["spark.driver.extraJavaOptions"] = " ".join((jvm_options[0], given))
    return properties


def _long_run(master: str) -> Sequence[str]:
    """The JVM's options for a session that runs on: by the number of threads that run its tasks."""
    match = _TASK_THREADS.match(master)
    threads = (os.cpu_count() or 1) if match is None or match[1] == "*" else int(match[1])
    return _LONG_RUN_ON_FEW_CORES if threads <= _FEW_CORES else _LONG_RUN


def _workers_python(properties: Mapping[str, str]) -> str:
    """The Python of the workers: on this machine this process's own, elsewhere what the user says."""
    given = properties.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    if _on_one_machine(properties["spark.master"]) or not given:
        given = properties.get("spark.pyspark.python", sys.executable)
    return given


def _paths(class_path: str) -> list[Path]:
    return [Path(entry) for entry in class_path.split(os.pathsep) if entry]


def _lock_directory(gateway: Any, path: Path) -> Any:
    """Have the JVM lock `path`, after the JVM of a killed run has exited. Returns the JVM's lock object."""
    channel = gateway.jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while (lock := channel.tryLock()) is None:
        if time.monotonic() > deadline:
            raise SparkError(f"another Spark uses {path.parent}: stop it, or give another directory")
        time.sleep(0.1)
    return channel, lock


def _log_lost_connection(request: object, client_address: object) -> None:
    log.debug("connection with the JVM lost", exc_info=True)


def _drop_checksums(checkpoints: Path) -> None:
    """Remove Hadoop's .crc files; Spark reads a file without one all the same.

    A kill between the two renames over an older file of state leaves a checksum that does not fit, with which
    the query would not start again.
    """
    for path in checkpoints.rglob(".*.crc"):
        path.unlink(missing_ok=True)


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
