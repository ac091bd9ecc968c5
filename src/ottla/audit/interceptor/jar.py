"""Makes the jar of the interceptor for Java's producers, from its source in this package.

A wheel holds the source alone. The compiler is the JDK's `javac`; the jar runs on Java 11 and newer, with any
Kafka clients from 3.0 on, since only their public classes are used. It is written aside and renamed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from importlib import resources
from pathlib import Path
from typing import Final

from ottla.config.errors import UserError

INTERCEPTOR_CLASS: Final = "ottla.audit.AuditInterceptor"
_SOURCE: Final = "AuditInterceptor.java"
_RELEASE: Final = "11"
_TIMEOUT_SECONDS: Final = 300.0
_MANIFEST: Final = "Manifest-Version: 1.0\r\nCreated-By: ottla\r\n\r\n"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all files in the jar, so that the same source gives the same bytes."""


class InterceptorError(UserError):
    """The jar can't be made, and why."""


def find_javac() -> Path:
    """The compiler of JAVA_HOME, else the one on the PATH. Raises InterceptorError."""
    name = "javac.exe" if os.name == "nt" else "javac"
    home = os.environ.get("JAVA_HOME")
    if home and (found := Path(home) / "bin" / name).is_file():
        return found
    on_path = shutil.which("javac")
    if on_path is None:
        raise InterceptorError(
            "there is no javac, neither in JAVA_HOME nor on the PATH: install a JDK of Java 11 or newer, or "
            "make the jar on a machine that has one; the jar runs on any Java"
        )
    return Path(on_path)


def make_interceptor_jar(javac: Path, kafka_clients: Path, output: Path) -> None:
    """Compile the interceptor against the jar of Kafka's clients into a jar. Raises InterceptorError."""
    if not kafka_clients.is_file():
        raise InterceptorError(f"{kafka_clients} is not there: name the jar of Kafka's clients")
    try:
        with tempfile.TemporaryDirectory(prefix=".ottla-audit-", dir=output.absolute().parent) as name:
            directory = Path(name)
            source, classes, made = directory / _SOURCE, directory / "classes", directory / "made.jar"
            source.write_bytes(resources.files(__package__).joinpath(_SOURCE).read_bytes())
            _compile(javac, kafka_clients, source, classes)
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as jar:
                jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _EPOCH), _MANIFEST)
                for path in sorted(classes.rglob("*.class")):
                    entry = zipfile.ZipInfo(path.relative_to(classes).as_posix(), _EPOCH)
                    jar.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
            os.replace(made, output)
    except OSError as problem:
        raise InterceptorError(f"{output} can't be written: {problem.strerror or problem}") from None


def _compile(javac: Path, kafka_clients: Path, source: Path, classes: Path) -> None:
    words = [str(javac), "--release", _RELEASE, "-proc:none", "-encoding", "UTF-8"]
    words += ["-classpath", str(kafka_clients), "-d", str(classes), str(source)]
    try:
        run = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InterceptorError(f"{javac} does not end within {_TIMEOUT_SECONDS:g} seconds") from None
    if run.returncode:
        refusal = (run.stderr or run.stdout)[-2_000:]
        raise InterceptorError(f"{javac} refuses the interceptor with {kafka_clients.name}: {refusal}")
