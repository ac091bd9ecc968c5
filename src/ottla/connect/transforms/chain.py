"""The transforms of a connector, one after the other, as its configuration names them.

transforms=route,mask
transforms.route.type=org.apache.kafka.connect.transforms.RegexRouter
transforms.mask.type=org.apache.kafka.connect.transforms.MaskField$Value
transforms.mask.predicate=internal
transforms.mask.negate=true
predicates=internal
predicates.internal.type=org.apache.kafka.connect.transforms.predicates.TopicNameMatches
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import InvalidValue, boolean, repeating_list
from ottla.connect.data.record import Record
from ottla.connect.plugins.api import Predicate, RetriableError, Transform
from ottla.connect.plugins.catalog import Catalog, Kind
from ottla.connect.plugins.configuring import configured
from ottla.connect.plugins.required import missing

TRANSFORMS: Final = repeating_list("transforms", (), "The aliases of the transforms, in their order.")
PREDICATES: Final = repeating_list("predicates", (), "The aliases of the predicates.")
NEGATE: Final = boolean("negate", False, "Whether the transform is for records without its predicate.")
_MAX_SHOWN: Final = 200


class TransformError(Exception):
    """A transform has failed for a record. alias, class_name: of the transform. The cause is the problem."""

    def __init__(self, alias: str, class_name: str, record: Record, problem: Exception) -> None:
        at = "" if record.offset is None else f", partition {record.partition}, offset {record.offset}"
        text = str(problem) or type(problem).__name__
        super().__init__(
            f"transform {alias} ({class_name}) of a record of the topic {record.topic}{at}: {text}"
        )
        self.alias = alias
        self.class_name = class_name


@dataclass(frozen=True, slots=True)
class Stage:
    """A transform of a chain, and the predicate of the records that it is for."""

    alias: str
    class_name: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: Record) -> Record | None:
        """Raises TransformError, RetriableError."""
        try:
            if self.predicate is not None and self.predicate.test(record) is self.negate:
                return record
            return self.transform.apply(record)
        except RetriableError:
            raise
        except Exception as problem:
            raise TransformError(self.alias, self.class_name, record, problem) from problem


class TransformChain:
    """The stages of a connector's configuration. One thread uses a chain."""

    __slots__ = ("stages",)

    def __init__(self, stages: Sequence[Stage] = ()) -> None:
        self.stages: Final = tuple(stages)

    @classmethod
    def of(cls, config: Mapping[str, str], catalog: Catalog) -> TransformChain:
        """The chain of a connector's configuration. Raises ConfigError."""
        predicates = _aliases(config, PREDICATES.name)
        return cls(
            [_stage(alias, config, catalog, predicates) for alias in _aliases(config, TRANSFORMS.name)]
        )

    def __bool__(self) -> bool:
        """Whether it has any stage."""
        return bool(self.stages)

    def apply(self, record: Record) -> Record | None:
        """The record that the last stage gives; None where a stage drops it.

        Raises TransformError, which names the failing stage, and RetriableError.
        """
        current: Record | None = record
        for stage in self.stages:
            if current is None:
                return None
            current = stage.apply(current)
        return current


def _aliases(config: Mapping[str, str], name: str) -> tuple[str, ...]:
    text = config.get(name, "")
    setting = TRANSFORMS if name == TRANSFORMS.name else PREDICATES
    aliases = setting.parse(text)
    if len(set(aliases)) < len(aliases):
        raise ConfigError(
            f"Invalid value [{', '.join(aliases)}] for configuration {name}: Duplicate alias provided."
        )
    if not all(aliases):
        raise ConfigError(f"Invalid value {text} for configuration {name}: an alias is empty")
    return aliases


def _stage(alias: str, config: Mapping[str, str], catalog: Catalog, predicates: tuple[str, ...]) -> Stage:
    prefix = f"transforms.{alias}."
    texts = _with_prefix(config, prefix)
    name = texts.pop("predicate", None)
    negate_text = texts.pop("negate", None)
    if negate_text is not None and name is None:
        raise ConfigError(
            f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a "
            "predicate to be negated."
        )
    class_name, transform = _made(prefix, texts, catalog, Kind.TRANSFORMATION)
    if name is None:
        return Stage(alias, class_name, transform)
    if name not in predicates:
        raise ConfigError(
            f"Invalid value {name} for configuration {prefix}predicate: the predicate is not in `predicates`"
        )
    of_predicate = f"predicates.{name}."
    _, predicate = _made(of_predicate, _with_prefix(config, of_predicate), catalog, Kind.PREDICATE)
    try:
        negate = NEGATE.parse(negate_text or "false")
    except InvalidValue as invalid:
        raise ConfigError(
            f"Invalid value {invalid.value} for configuration {prefix}negate: {invalid.problem}"
        ) from None
    return Stage(alias, class_name, transform, predicate, negate)


def _with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): text for name, text in config.items() if name.startswith(prefix)}


def _made(prefix: str, texts: dict[str, str], catalog: Catalog, kind: Kind) -> tuple[str, Any]:
    """The class name and the object of a transform or predicate. Raises ConfigError."""
    given = texts.pop("type", None)
    if given is None:
        raise ConfigError(missing(f"{prefix}type"))
    plugin = catalog.find(given.strip(), kind)
    if plugin is None:
        raise ConfigError(
            f"Invalid value {given[:_MAX_SHOWN]} for configuration {prefix}type: Class {given[:_MAX_SHOWN]} "
            "could not be found."
        )
    found = plugin.load()
    try:
        return plugin.names[0], found(configured(found.TABLE, texts))
    except ConfigError as problem:
        raise ConfigError(f"{prefix.removesuffix('.')}: {problem}") from problem
