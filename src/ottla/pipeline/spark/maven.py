"""Fetches pinned jars from a repository in Maven's layout, once, without Java.

A `Jar` is a coordinate and the sha256 that its bytes must have. `fetch_jars` returns a path for each: from
the cache (see `ottla.pipeline.spark.cache`), from the user's own Maven repository (~/.m2) if the bytes there
have the pinned hash, otherwise by download.

Order of writes: a download goes to a temporary file beside its place, is hashed on arrival, synced, and
renamed to the final name only if the hash is right. So a file with the final name is always whole, a kill at
any line leaves at most a temporary file (removed by a later fetch once it is a day old), and two processes
may fetch the same jar at the same time. A cached file is hashed again for each fetch: that takes
milliseconds, and a damaged disk is noticed here rather than as a ClassNotFoundException.

OTTLA_MAVEN_BASE names a mirror's base address. The default is that of the package `maven-artifact`.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import requests

from ottla.config.errors import UserError
from ottla.pipeline.spark.cache import CACHE_ENVIRONMENT, cache_directory

BASE_ENVIRONMENT = "OTTLA_MAVEN_BASE"
CONNECT_TIMEOUT_SECONDS = 10.0
READ_TIMEOUT_SECONDS = 60.0
RETRY_DELAYS_SECONDS = (0.5, 1.0, 2.0, 4.0)
PARALLEL_DOWNLOADS = 4
MAX_JAR_BYTES = 1 << 30
STALE_TEMPORARY_SECONDS = 24 * 3600
_CHUNK_BYTES = 1 << 16
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class MavenError(UserError):
    """A jar could not be fetched; the message says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a Maven repository: its coordinate, and the sha256 (64 hex digits) of its bytes."""

    group: str
    artifact: str
    version: str
    sha256: str
    extension: str = "jar"
    classifier: str = ""

    def __post_init__(self) -> None:
        for part in (self.group, self.artifact, self.version, self.extension, self.classifier or "_"):
            if not _PART.fullmatch(part):
                raise ValueError(f"not a part of a Maven coordinate: {part!r}")
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"not a sha256 in lower-case hex: {self.sha256!r} ({self.coordinate})")

    @property
    def coordinate(self) -> str:
        classifier = f":{self.classifier}" if self.classifier else ""
        extension = f"@{self.extension}" if self.extension != "jar" else ""
        return f"{self.group}:{self.artifact}:{self.version}{classifier}{extension}"

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{classifier}.{self.extension}"

    @property
    def relative_path(self) -> str:
        """The path inside a repository of Maven's layout, with forward slashes."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"


@dataclass(frozen=True, slots=True)
class JarProgress:
    """The state of one jar's download. total_bytes: None if unknown yet. cached: no download was needed."""

    jar: Jar
    received_bytes: int
    total_bytes: int | None
    done: bool
    cached: bool = False


def default_base() -> str:
    """The address of the public Maven repository, from the installed package `maven-artifact`."""
    from maven_artifact.downloader import Downloader  # type: ignore[import-untyped]

    return str(inspect.signature(Downloader.__init__).parameters["base"].default)


def base_address() -> str:
    """The address of the repository for jars: OTTLA_MAVEN_BASE or the default, without a trailing slash."""
    return (os.environ.get(BASE_ENVIRONMENT) or default_base()).rstrip("/")


def fetch_jars(
    jars: Sequence[Jar],
    progress: Callable[[JarProgress], None] | None = None,
    *,
    retry_delays_seconds: Sequence[float] = RETRY_DELAYS_SECONDS,
) -> list[Path]:
    """A path for each jar, in the order given; jars that are not on this machine yet are downloaded.

    `progress` is called from worker threads, never two calls at once; an exception of it ends the fetch.
    Raises MavenError if a jar can't be fetched; the others may be in the cache by then.
    """
    report = _Reporter(progress)
    found = {jar: _local_copy(jar, report) for jar in dict.fromkeys(jars)}
    missing = [jar for jar, path in found.items() if path is None]
    if missing:
        base = base_address()
        with ThreadPoolExecutor(PARALLEL_DOWNLOADS, "maven") as pool:
            downloads = {
                jar: pool.submit(_download, jar, base, report, retry_delays_seconds) for jar in missing
            }
            try:
                for jar, download in downloads.items():
                    found[jar] = download.result()
            except BaseException:
                report.cancelled.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    return [path for jar in jars if (path := found[jar]) is not None]


class _Reporter:
    """Hands progress to the caller's function one call at a time, and tells the workers to stop."""

    def __init__(self, progress: Callable[[JarProgress], None] | None) -> None:
        self.cancelled = threading.Event()
        self._progress = progress
        self._lock = threading.Lock()

    def __call__(self, progress: JarProgress) -> None:
        if self._progress is not None:
            with self._lock:
                self._progress(progress)


def _cached_path(jar: Jar) -> Path:
    return cache_directory() / "maven" / jar.relative_path


def _local_copy(jar: Jar, report: _Reporter) -> Path | None:
    for path in (_cached_path(jar), Path.home() / ".m2" / "repository" / jar.relative_path):
        if path.is_file() and _sha256_of(path) == jar.sha256:
            size_bytes = path.stat().st_size
            report(JarProgress(jar, size_bytes, size_bytes, done=True, cached=True))
            return path
    return None


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Retriable(Exception):
    """An attempt failed in a way in which another attempt may succeed."""


def _download(jar: Jar, base: str, report: _Reporter, retry_delays_seconds: Sequence[float]) -> Path:
    target = _cached_path(jar)
    url = f"{base}/{jar.relative_path}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale_temporaries(target)
    except OSError as error:
        raise MavenError(_not_kept(jar, error)) from error
    reason = ""
    for attempt in range(len(retry_delays_seconds) + 1):
        if attempt and report.cancelled.wait(retry_delays_seconds[attempt - 1]):
            break
        try:
            return _attempt(jar, url, target, report)
        except _Retriable as error:
            reason = str(error)
    raise MavenError(_failed(jar, url, target, reason or "stopped"))


def _failed(jar: Jar, url: str, target: Path, reason: str) -> str:
    return (
        f"could not fetch {jar.coordinate} from {url}: {reason}. "
        f"Check the network, or set {BASE_ENVIRONMENT} to the base address of a Maven mirror, "
        f"or put the file with sha256 {jar.sha256} at {target}."
    )


def _not_kept(jar: Jar, error: OSError) -> str:
    advice = f"Set {CACHE_ENVIRONMENT} to a writable directory"
    return f"cannot keep {jar.coordinate} in the cache: {error}. {advice}."


def _attempt(jar: Jar, url: str, target: Path, report: _Reporter) -> Path:
    timeout = (CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS)
    try:
        with requests.get(url, stream=True, timeout=timeout) as response:
            if response.status_code in (408, 425, 429) or response.status_code >= 500:
                raise _Retriable(f"the server answered {response.status_code}")
            if response.status_code != 200:
                raise MavenError(_failed(jar, url, target, f"the server answered {response.status_code}"))
            return _receive(jar, url, target, response, report)
    except requests.RequestException as error:
        raise _Retriable(f"{type(error).__name__}: {error}") from error
    except OSError as error:  # after RequestException, which is an OSError too
        raise MavenError(_not_kept(jar, error)) from error


def _receive(jar: Jar, url: str, target: Path, response: requests.Response, report: _Reporter) -> Path:
    length = response.headers.get("Content-Length", "")
    total_bytes = int(length) if length.isdigit() and "Content-Encoding" not in response.headers else None
    digest = hashlib.sha256()
    received_bytes = 0
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in response.iter_content(_CHUNK_BYTES):
                received_bytes += len(chunk)
                if received_bytes > MAX_JAR_BYTES:
                    raise MavenError(_failed(jar, url, target, f"it is larger than {MAX_JAR_BYTES} bytes"))
                if report.cancelled.is_set():
                    raise MavenError(_failed(jar, url, target, "stopped"))
                digest.update(chunk)
                file.write(chunk)
                report(JarProgress(jar, received_bytes, total_bytes, done=False))
            file.flush()
            os.fsync(file.fileno())
        if total_bytes is not None and received_bytes != total_bytes:
            raise _Retriable(f"the connection was cut after {received_bytes} of {total_bytes} bytes")
        if digest.hexdigest() != jar.sha256:
            raise _Retriable(
                f"its sha256 is {digest.hexdigest()}, not the pinned {jar.sha256} ({received_bytes} bytes)"
            )
        # mkstemp makes files for their owner alone; a cache may be shared.
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    report(JarProgress(jar, received_bytes, received_bytes, done=True))
    return target


def _remove_stale_temporaries(target: Path) -> None:
    """Remove the old temporary files of killed downloads; a young one may belong to a live process."""
    oldest = time.time() - STALE_TEMPORARY_SECONDS
    for path in target.parent.glob(f".{target.name}.*.part"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except FileNotFoundError:
            continue
