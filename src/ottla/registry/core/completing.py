"""Metadata and rules as they are stored: from the request, the last version and the configuration."""

from __future__ import annotations

from dataclasses import replace

from ottla.registry.core.configuration import Config
from ottla.registry.core.image import StoredSchema
from ottla.schemas.model import Schema


def completed(schema: Schema, config: Config, latest: StoredSchema | None) -> Schema:
    """The schema as the next version after `latest`.

    Metadata and rules that it leaves out are those of the last version. Defaults lie under them, overrides
    over them.
    """
    metadata, rules = schema.metadata, schema.rule_set
    if latest is not None:
        metadata = latest.schema.metadata if metadata is None else metadata
        rules = latest.schema.rule_set if rules is None else rules
    if config.default_metadata is not None:
        metadata = config.default_metadata if metadata is None else metadata.over(config.default_metadata)
    if config.override_metadata is not None:
        metadata = config.override_metadata.over(metadata)
    if config.default_rule_set is not None:
        rules = config.default_rule_set if rules is None else rules.over(config.default_rule_set)
    if config.override_rule_set is not None:
        rules = config.override_rule_set.over(rules)
    return replace(schema, metadata=metadata, rule_set=rules)
