"""What of a worker's settings the processes of its connectors are told."""

from __future__ import annotations

from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.connect.settings import TABLE, host_properties


def told(given: dict[str, str]) -> dict[str, str]:
    return host_properties(Settings(TABLE, from_mapping(given, "given")), standalone=False)


def test_hosts_are_told_of_their_spark_and_not_of_what_is_the_workers() -> None:
    of_spark = {
        "ottla.spark.master": "local[1]",
        "ottla.spark.driver.memory": "2g",
        "ottla.spark.jars": "/a.jar,/b.jar",
        "spark.sql.session.timeZone": "UTC",
    }
    of_worker = {"ottla.task.restart.max": "3", "listeners": "http://127.0.0.1:8083"}
    found = told({**of_spark, **of_worker})
    assert of_spark.items() <= found.items()
    assert not of_worker.keys() & found.keys()
