"""Other releases of PySpark than the locked one, each in a directory of its own in the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ottla.pipeline.file_lock import FileLock
from ottla.pipeline.spark.cache import cache_directory

LOCKS = Path(__file__).parent / "locks"
INSTALL_TIMEOUT_SECONDS = 1_800.0


def installed_spark(version: str) -> Path:
    """The directory with this PySpark, made once: 450 MB. Py4J and the rest are this environment's."""
    place = cache_directory() / "tests" / f"pyspark-{version}"
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(place.with_suffix(".lock"))
    assert lock.acquire(INSTALL_TIMEOUT_SECONDS)
    try:
        if not place.is_dir():
            unfinished = place.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
            pip += ["--no-build-isolation", "--require-hashes"]
            pip += ["--target", str(unfinished), "-r", str(LOCKS / f"pyspark-{version}.lock")]
            subprocess.run(pip, check=True, timeout=INSTALL_TIMEOUT_SECONDS)
            unfinished.rename(place)
    finally:
        lock.release()
    return place


def with_spark(directory: Path) -> dict[str, str]:
    """The environment of a process whose PySpark is the one in this directory."""
    here = [str(directory), str(Path(__file__).parents[2])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*here, *sys.path[1:]])}
