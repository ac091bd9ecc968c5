"""A worker's settings of the Spark of its hosts."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import LOW, string, string_list, text_or_none

DIRECTORY: Final = text_or_none(
    "ottla.spark.directory",
    None,
    "Where sessions of Spark have their directories, one each; none: in the system's temporary directory.",
    importance=LOW,
)
MASTER: Final = text_or_none(
    "ottla.spark.master", None, "Spark's master; none: local, with as many threads as there are cores."
)
DRIVER_MEMORY: Final = string("ottla.spark.driver.memory", "1g", "The heap of a host's Spark.")
JARS: Final = string_list(
    "ottla.spark.jars",
    (),
    "More jars for a host's Spark, for the data sources that connectors name.",
    importance=LOW,
)
PREFIX: Final = "spark."
"""Of Spark's own properties, which stand beside them."""
