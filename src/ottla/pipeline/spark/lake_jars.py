"""The jars with which the installed PySpark reads and writes Iceberg and Delta tables, and files on S3.

Iceberg's runtime and Delta's two jars need nothing else. S3 needs Amazon's SDK, which Iceberg's bundle has
for Iceberg and for Hadoop's file system s3a:// alike, but for the transfer manager that the latter asks for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from ottla.pipeline.spark.maven import Jar, JarProgress, fetch_jars
from ottla.pipeline.spark.spark_jars import SparkJarsError


class Lake(enum.Enum):
    """What a session's jars make it able to use."""

    ICEBERG = "Iceberg"
    DELTA = "Delta"
    S3 = "S3"


_ICEBERG = "org.apache.iceberg"
LAKE_JARS: Mapping[tuple[Lake, str], tuple[Jar, ...]] = MappingProxyType(
    {
        (Lake.ICEBERG, "4.1.1"): (
            Jar(
                _ICEBERG,
                "iceberg-spark-runtime-4.1_2.13",
                "1.11.0",
                "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
            ),
        ),
        (Lake.DELTA, "4.1.1"): (
            Jar(
                "io.delta",
                "delta-spark_4.1_2.13",
                "4.1.0",
                "9b05d7a82196ee1f1073733a45a2faae59161e52b86ae918fe6742fad6eaf036",
            ),
            Jar(
                "io.delta",
                "delta-storage",
                "4.1.0",
                "6d0520ffcc35b582369f92c23fa24e14a5bb935cf6e31ed7f47c5046ae17cb25",
            ),
        ),
        (Lake.S3, "4.1.1"): (
            Jar(
                _ICEBERG,
                "iceberg-aws-bundle",
                "1.11.0",
                "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
            ),
            Jar(
                "org.apache.hadoop",
                "hadoop-aws",
                "3.4.2",
                "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9",
            ),
            Jar(
                "software.amazon.awssdk",
                "s3-transfer-manager",
                "2.44.4",
                "dbcad736b19f6eb8471f9edf027d9fffe994228f25f415894efd01fd80cb6c02",
            ),
        ),
    }
)


def lake_jars(
    lakes: Iterable[Lake], spark_version: str, progress: Callable[[JarProgress], None] | None = None
) -> list[Path]:
    """Paths of the jars that some lakes need. Raises SparkJarsError for another Spark, MavenError."""
    wanted: list[Jar] = []
    for lake in sorted(lakes, key=lambda each: each.value):
        jars = LAKE_JARS.get((lake, spark_version))
        if jars is None:
            known = ", ".join(sorted({version for _, version in LAKE_JARS}))
            raise SparkJarsError(
                f"no jars of {lake.value} are known for Spark {spark_version} (known: {known})"
            )
        wanted += jars
    return fetch_jars(wanted, progress)
