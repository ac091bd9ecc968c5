"""What a suite needs from elsewhere, fetched once and kept: virtual environments, source packages, checkouts.

Each thing has a directory named after what decides its content, and a marker in it that is written last:
a directory without its marker is what an interrupted run left, and is made again.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from conformance.suite import SuiteError

LOCKS = Path(__file__).with_name("locks")
MARKER = ".complete"
DOWNLOAD_TIMEOUT_S = 900.0


def virtual_environment(downloads: Path, lock: str, locks: Path = LOCKS) -> Path:
    """The Python of an environment with exactly the packages of `<locks>/<lock>.lock`. Raises SuiteError."""
    lock_path = locks / f"{lock}.lock"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = downloads / "environments" / f"{lock}-py{version}-{_digest(lock_path)}"

    def make() -> None:
        command([sys.executable, "-m", "venv", str(place)])
        pip(_python(place), "install", "--no-build-isolation", "--require-hashes", "-r", str(lock_path))

    _once(place, make)
    return _python(place)


def source_package(downloads: Path, python: Path, lock: str) -> Path:
    """The unpacked source package of `locks/<lock>.lock`, fetched by `python`'s pip. Raises SuiteError."""
    lock_path = LOCKS / f"{lock}.lock"
    place = downloads / "sources" / f"{lock}-{_digest(lock_path)}"

    def make() -> None:
        place.mkdir(parents=True)
        choice = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--require-hashes")
        pip(python, "download", *choice, "--dest", str(place), "-r", str(lock_path))
        for archive in place.glob("*.tar.gz"):
            with tarfile.open(archive) as tar:
                tar.extractall(place, filter="data")

    _once(place, make)
    directories = sorted(entry for entry in place.iterdir() if entry.is_dir())
    if len(directories) != 1:
        raise SuiteError(f"{place} holds {len(directories)} source packages, not one")
    return directories[0]


def project_address(python: Path, package: str) -> str:
    """Where an installed package says that its source is. Raises SuiteError."""
    code = (
        f"import importlib.metadata as m; print(*m.metadata({package!r}).get_all('Project-URL'), sep='\\n')"
    )
    for line in command([str(python), "-c", code]).splitlines():
        label, _, address = line.partition(",")
        if label.strip().lower() in ("source", "repository"):
            return address.strip()
    raise SuiteError(f"{package} does not say where its source is")


def checkout(downloads: Path, address: str, commit: str) -> Path:
    """The tree of one commit of a git repository; the commit's id is the pin. Raises SuiteError.

    Git's own setting `url.<base>.insteadOf` sends it to a mirror.
    """
    place = downloads / "checkouts" / f"{address.rstrip('/').rpartition('/')[2]}-{commit}"

    def make() -> None:
        place.mkdir(parents=True)
        git = ["git", "-C", str(place)]
        command([*git, "init", "--quiet"])
        command([*git, "fetch", "--quiet", "--depth", "1", address, commit])
        command([*git, "checkout", "--quiet", "FETCH_HEAD"])

    _once(place, make)
    return place


def pip(python: Path, *arguments: str) -> None:
    """Run an environment's pip. Raises SuiteError."""
    command([str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments])


def command(
    words: list[str], *, environment: Mapping[str, str] | None = None, timeout_s: float = DOWNLOAD_TIMEOUT_S
) -> str:
    """Run a command to its end and return what it printed. Raises SuiteError with its last words."""
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SuiteError(f"{words[0]}: {error}") from error
    if done.returncode != 0:
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-3:]
        raise SuiteError(f"`{' '.join(words)}` ended with {done.returncode}: {' / '.join(last)}")
    return done.stdout


def _once(place: Path, make: Callable[[], None]) -> None:
    if not (place / MARKER).exists():
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        make()
        (place / MARKER).touch()


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
