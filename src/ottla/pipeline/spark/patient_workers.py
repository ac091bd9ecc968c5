"""Makes a jar with the class of Spark that waits for Python processes, changed to wait longer.

Spark starts a process of Python in the driver for each query with state that is written in Python, and gives
it 10 seconds to connect back, a constant of `PythonWorkerFactory.createSimpleWorker`. Where twenty queries
begin on two busy cores that is not enough, and a query fails as often as it is started again. The changed
class waits PATIENCE_MS. It stands before Spark's own on the class path, and lies in the cache, made again
from Spark's jar at each start and compared. A Spark whose class has other constants stays as it is.
"""

from __future__ import annotations

import logging
import struct
import zipfile
from pathlib import Path
from typing import Final

from ottla.pipeline.spark.cache import cache_directory
from ottla.pipeline.spark.repaired_jars import Repair, replace_file, single_entry_jar

PATIENCE_MS: Final = 120_000
ENTRY: Final = "org/apache/spark/api/python/PythonWorkerFactory.class"
_LONG: Final = 5
"""The tag of a long in a class's constants."""
_SPARKS_MS: Final = 10_000
REPAIR: Final = Repair(ENTRY, struct.pack(">Bq", _LONG, _SPARKS_MS), struct.pack(">Bq", _LONG, PATIENCE_MS))

log = logging.getLogger("ottla.pipeline")


def patient_workers_jar(spark_home: Path) -> Path | None:
    """The jar; None for a Spark that it is not for, or where the cache can't be written."""
    try:
        (core,) = (spark_home / "jars").glob("spark-core_*.jar")
        with zipfile.ZipFile(core) as published:
            wanted = single_entry_jar(published.read(ENTRY), REPAIR)
        place = cache_directory() / "jvm-classes" / f"patient-workers-{core.stem}.jar"
        if not place.is_file() or place.read_bytes() != wanted:
            replace_file(place, wanted)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as problem:
        log.info("Python processes of Spark have 10 s to begin: %s", problem)
        return None
    return place
