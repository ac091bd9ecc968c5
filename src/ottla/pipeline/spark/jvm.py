"""Starts Spark's JVM, and connects PySpark to it.

There are two ways to start it. Spark's own launcher, `bin/spark-submit`, is a shell script and a JVM of its
own that prints the real one's command; it heeds Spark's environment variables and files. On this machine,
where an earlier start has left that command (jvm_home.py) and no such variable or file is there, the JVM is
started directly, with the archive of classes if there is one (class_archive.py). A JVM that dies on the
direct way before it can be reached is started the other way; if that succeeds, the home is emptied.

The JVM ignores SIGINT and SIGTERM, and is in a session of its own: a signal to a whole process group or
service is for this process, which ends its queries and then the JVM. The JVM reads from a pipe that this
process holds, and exits when the pipe closes: that takes it a second or two, in which it may finish a write.
Where whoever kills this process must be sure of both, the JVM is left in its process group.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.pipeline.spark.class_archive import archiving_wanted, may_be_made, new_list
from ottla.pipeline.spark.errors import SparkError
from ottla.pipeline.spark.java_runtime import JavaRuntime
from ottla.pipeline.spark.jvm_home import JvmCommand, JvmHome, decided_options

REACH_TIMEOUT_SECONDS: Final = 180.0
_POLL_SECONDS: Final = 0.01
_SUBMIT: Final = "org.apache.spark.deploy.SparkSubmit"
_GATEWAY: Final = "org.apache.spark.api.python.PythonGatewayServer"
_SHELL: Final = "pyspark-shell"
_LIST_OPTION: Final = "-XX:DumpLoadedClassList="
_CONNECTION_FILE: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
# Variables by which the launcher would make another command than it did for the home.
_LAUNCHER_VARIABLES: Final = (
    "HADOOP_CONF_DIR",
    "JDK_JAVA_OPTIONS",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_MEM",
    "SPARK_PREPEND_CLASSES",
    "SPARK_SUBMIT_OPTS",
    "SPARK_TESTING",
    "YARN_CONF_DIR",
)
# Properties that the launcher turns into parts of the command, beside those that are read here.
_LAUNCHER_PROPERTIES: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraLibraryPath")

# Properties by which SparkSubmit brings files or logs in, before it starts the gateway.
_SUBMITTED_PROPERTIES: Final = (
    "spark.archives",
    "spark.files",
    "spark.jars",
    "spark.jars.packages",
    "spark.kerberos.keytab",
    "spark.kerberos.principal",
    "spark.submit.pyFiles",
)

log = logging.getLogger("ottla.pipeline")


@dataclass(frozen=True, slots=True)
class JvmOrder:
    """A JVM to be started. properties: of Spark. log: the file of its standard output and error.

    home: where such starts are kept; None: by the launcher, without an archive. own_session: False leaves the
    JVM in this process's group, so that a kill of the group ends both.
    """

    java: JavaRuntime
    spark_home: Path
    python: str
    properties: Mapping[str, str]
    log: Path
    home: JvmHome | None
    own_session: bool = True


@dataclass(slots=True)
class StartedJvm:
    """A JVM on its way. loaded: the file in which it lists the classes that it loads, or None.

    suspect: a direct start from the order's home has died before this one.
    """

    order: JvmOrder
    process: subprocess.Popen[bytes]
    connection: Path
    direct: bool
    loaded: Path | None
    suspect: bool = False

    def kill(self) -> None:
        """End the JVM at once, with what was made for its start. Safe to call twice."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self._forget_connection()
        if self.loaded is not None:
            with contextlib.suppress(OSError):
                self.loaded.unlink(missing_ok=True)

    def connect(self) -> Any:
        """PySpark's gateway to the JVM. Raises SparkError."""
        port, secret = self._await_address()
        gateway = _gateway(port, secret)
        gateway.proc = self.process
        home = self.order.home
        if home is not None and archiving_wanted():
            home.touch()
            if self.suspect:  # the same order has succeeded without it
                home.forget()
            if not self.direct:
                home.remember(_command_of(gateway, self.order))
        return gateway

    def _await_address(self) -> tuple[int, str]:
        deadline = time.monotonic() + REACH_TIMEOUT_SECONDS
        while not self.connection.is_file():
            if self.process.poll() is not None and not self.connection.is_file():
                if self.direct:
                    self._start_again()
                    continue
                raise SparkError(self._failure("could not start Spark"))
            if time.monotonic() > deadline:
                raise SparkError(self._failure(f"has not started Spark in {REACH_TIMEOUT_SECONDS:.0f} s"))
            time.sleep(_POLL_SECONDS)
        address = self.connection.read_bytes()
        self._forget_connection()
        port, length = struct.unpack_from(">ii", address)
        return port, address[8 : 8 + length].decode()

    def _start_again(self) -> None:
        log.info("Java did not start directly, so Spark's launcher starts it")
        self.kill()
        again = start_jvm(self.order, direct=False)
        self.process, self.connection = again.process, again.connection
        self.direct, self.loaded, self.suspect = again.direct, again.loaded, True

    def _failure(self, problem: str) -> str:
        return f"Java at {self.order.java.executable} {problem}: see {self.order.log}"

    def _forget_connection(self) -> None:
        shutil.rmtree(self.connection.parent, ignore_errors=True)


def start_jvm(order: JvmOrder, *, direct: bool = True) -> StartedJvm:
    """Start the JVM, and return at once. direct: without the launcher, if possible. Raises SparkError."""
    home = order.home if archiving_wanted() else None
    command = home.command() if home is not None and direct and _launcher_can_be_left_out(order) else None
    loaded = new_list(home) if home is not None and may_be_made(home) else None
    if command is not None and home is not None:
        arguments = direct_command(order, command, home, loaded)
    else:
        arguments = _launcher_command(order, loaded)
    connection = Path(tempfile.mkdtemp(prefix="ottla-jvm-")) / "address"
    environment = {
        **os.environ,
        "JAVA_HOME": str(order.java.home),
        "SPARK_HOME": str(order.spark_home),
        "PYSPARK_PYTHON": order.python,
        "PYTHONHASHSEED": "0",  # Python's workers have to agree on the hashes of texts
        "SPARK_CONNECT_MODE": "0",
        _CONNECTION_FILE: str(connection),
    }
    try:
        with order.log.open("ab") as output:
            process = subprocess.Popen(
                [*_deaf(), *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=order.own_session,
            )
    except OSError as error:
        shutil.rmtree(connection.parent, ignore_errors=True)
        raise SparkError(f"Java at {order.java.executable} could not be started: {error}") from error
    if sys.platform == "win32":  # the process is the script there, and a kill would not reach the JVM
        atexit.register(subprocess.call, ["taskkill", "/f", "/t", "/pid", str(process.pid)])
    return StartedJvm(order, process, connection, command is not None, loaded)


def direct_command(
    order: JvmOrder, command: JvmCommand, home: JvmHome, loaded: Path | None = None
) -> list[str]:
    """The command that Spark's launcher would print, with the archive of classes if there is one.

    loaded: the file for the list of classes, where there is none.
    """
    properties = order.properties
    archive = []
    if loaded is not None:
        archive = [f"{_LIST_OPTION}{loaded}"]
    elif home.archive.is_file():
        archive = ["-Xshare:auto", f"-XX:SharedArchiveFile={home.archive}"]
    options = shlex.split(properties.get("spark.driver.extraJavaOptions", ""))
    memory = properties.get("spark.driver.memory", "1g")
    return [
        str(order.java.executable),
        *archive,
        "-cp",
        command.class_path,
        f"-Xmx{memory}",
        *options,
        *command.options,
        *_main(properties),
    ]


def _main(properties: Mapping[str, str]) -> list[str]:
    """The program: PySpark's gateway alone, if there is nothing for SparkSubmit to fetch."""
    if any(name in properties for name in _SUBMITTED_PROPERTIES):
        return [_SUBMIT, *_confs(properties), _SHELL]
    return [*(f"-D{name}={value}" for name, value in properties.items()), _GATEWAY]


def _launcher_command(order: JvmOrder, loaded: Path | None) -> list[str]:
    properties = dict(order.properties)
    if loaded is not None:
        options = properties.get("spark.driver.extraJavaOptions", "")
        properties["spark.driver.extraJavaOptions"] = f'{options} "{_LIST_OPTION}{loaded}"'.strip()
    script = "spark-submit.cmd" if sys.platform == "win32" else "spark-submit"
    submitted = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", _SHELL))
    return [str(order.spark_home / "bin" / script), *_confs(properties), *submitted]


def _confs(properties: Mapping[str, str]) -> list[str]:
    return [argument for name, value in properties.items() for argument in ("--conf", f"{name}={value}")]


def _launcher_can_be_left_out(order: JvmOrder) -> bool:
    if any(os.environ.get(name) for name in _LAUNCHER_VARIABLES):
        return False
    if any(name in order.properties for name in _LAUNCHER_PROPERTIES):
        return False
    return not (order.spark_home / "conf").exists()


def _deaf() -> Sequence[str]:
    """What goes before a command to start it with the signals ignored that are for this process."""
    return () if sys.platform == "win32" else ("/bin/sh", "-c", 'trap "" INT TERM; exec "$@"', "sh")


def _gateway(port: int, secret: str) -> Any:
    from pyspark.java_gateway import launch_gateway

    given = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(given)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in given:
            os.environ.pop(name, None)


def _command_of(gateway: Any, order: JvmOrder) -> JvmCommand:
    java = gateway.jvm.java.lang
    given = java.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    # By number: Py4J iterates up to an exception of Java's, and in a process that had a session before,
    # PySpark can't convert that without a context.
    arguments = [given.get(number) for number in range(given.size())]
    given = shlex.split(order.properties.get("spark.driver.extraJavaOptions", ""))
    kept = [each for each in decided_options(arguments, given) if not each.startswith(_LIST_OPTION)]
    return JvmCommand(str(java.System.getProperty("java.class.path")), tuple(kept))
