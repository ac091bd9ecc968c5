"""The Spark properties of a connector's Iceberg catalog: by default HadoopCatalog in a directory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from ottla.config.errors import ConfigError
from ottla.connect.spark.iceberg.settings import CATALOG_PREFIX

_HADOOP: Final = ("hadoop", "org.apache.iceberg.hadoop.HadoopCatalog")
_UNSAFE: Final = ("s3:", "s3a:", "s3n:")
"""Places where a rename replaces a file that is there: of two commits that conflict, both would believe
they won.
"""


def catalog_properties(
    name: str, given: Mapping[str, str], hadoop: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """The catalog's name in Spark, and its properties there. given: those under `iceberg.catalog.`.

    Connectors with the same settings share a name. Raises ConfigError.
    """
    properties = dict(given)
    kind = properties.get("type") or properties.get("catalog-impl")
    if kind is None:
        kind = properties["type"] = "rest" if properties.get("uri", "").startswith("http") else "hadoop"
    if kind in _HADOOP:
        warehouse = properties.get("warehouse")
        if not warehouse:
            raise ConfigError(
                f"{CATALOG_PREFIX}warehouse: the directory of the tables, which a catalog of type "
                "hadoop needs"
            )
        if warehouse.startswith(_UNSAFE):
            raise ConfigError(
                f"{CATALOG_PREFIX}type={kind}: it can lose commits on S3, where no rename is atomic; use "
                f"{CATALOG_PREFIX}type=rest or jdbc"
            )
    text = repr(sorted({**properties, **{f"hadoop.{k}": v for k, v in hadoop.items()}}.items()))
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    spark_name = f"{''.join(c if c.isalnum() and c.isascii() else '_' for c in name)}_{digest}"
    base = f"spark.sql.catalog.{spark_name}"
    made = {base: "org.apache.iceberg.spark.SparkCatalog"}
    made |= {f"{base}.{key}": value for key, value in properties.items()}
    made |= {f"{base}.hadoop.{key}": value for key, value in hadoop.items()}
    # what another run has committed must be seen
    made[f"{base}.cache-enabled"] = "false"
    return spark_name, made


def uses_s3(given: Mapping[str, str]) -> bool:
    """Whether a catalog's files are on S3."""
    return given.get("warehouse", "").startswith(_UNSAFE) or "S3FileIO" in given.get("io-impl", "")
