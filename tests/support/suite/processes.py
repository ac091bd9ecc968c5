"""How the tests are dealt out to the processes of `pytest -n` (pytest-xdist).

A process is given one file after another, as soon as it has run out of tests, so each file's fixtures are
made once. All files that use the shared Spark session are dealt out as one: only one process starts a Spark.
Folders whose files take long come first, the many short files of the unit tests fill up the end.

A session fixture (the broker, the registry) is made once in each process that needs it; ports are drawn from
a range of the process's own (`support.servers.cluster.free_port`).
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest

SPARK = "spark"
FIRST_FOLDERS = ("crash", "conformance", "pipeline", "services", "simulation", "property")

# The controlling process collects nothing, so it tells by the text of a file.
SPARK_PARAMETER = re.compile(r"\bspark(_session)?: Spark\w*Session\b")


@functools.cache
def uses_spark(path: Path) -> bool:
    """Whether a file of tests has a function that takes the shared Spark session."""
    return SPARK_PARAMETER.search(path.read_text(encoding="utf-8")) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring the tests in the order in which their files are dealt out."""
    for item in items:
        if "spark_session" in getattr(item, "fixturenames", ()) and not uses_spark(item.path):
            raise pytest.UsageError(f"{item.nodeid}: write the parameter as `spark: SparkSession`")
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -1 if uses_spark(item.path) else _rank(item.path, config.rootpath))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """What deals out files, those with Spark as one, in the order in which they were collected."""
    from xdist.scheduler import LoadFileScheduling

    class FilesInOrder(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return SPARK if uses_spark(config.rootpath / file) else file

    config.option.loadscopereorder = False
    return FilesInOrder(config, log)


def _rank(path: Path, root: Path) -> int:
    """The place of a test's folder among those that come first, or after them."""
    folder = path.relative_to(root / "tests").parts[0]
    return FIRST_FOLDERS.index(folder) if folder in FIRST_FOLDERS else len(FIRST_FOLDERS)
