"""Judges a connector's configuration as PUT /connector-plugins/P/config/validate does: key by key.

Only the tables of plugins are looked at. No connector is made and no other system is asked, so an answer
needs neither Spark nor a network.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.config.setting import Table
from ottla.connect.core.errors import Refused
from ottla.connect.plugins import definitions as base
from ottla.connect.plugins.catalog import Catalog, Kind, Plugin
from ottla.connect.plugins.definition import Definition, Value, Width, definitions_of, value_of
from ottla.connect.plugins.overrides import OverridePolicy, prefixes_of

log = logging.getLogger("ottla.connect")

Config = Mapping[str, str | None]
IsReference = Callable[[str], bool]
NULL: Final = "Null value can not be supplied as the configuration value."
CONNECTORS: Final = (Kind.SINK, Kind.SOURCE)
_CONVERTER_GROUPS: Final = ("Serialization", "Schemas", None)
_ALIAS_KINDS: Final = {
    base.TRANSFORMS: (Kind.TRANSFORMATION, base.TRANSFORMS_GROUP, "Transformation"),
    base.PREDICATES: (Kind.PREDICATE, base.PREDICATES_GROUP, "Predicate"),
}
_CONVERTER_KINDS: Final = {
    base.HEADER_CONVERTER: Kind.HEADER_CONVERTER,
    base.KEY_CONVERTER: Kind.CONVERTER,
    base.VALUE_CONVERTER: Kind.CONVERTER,
}


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """What is right and wrong with a configuration. groups: of the keys, in the order of a form."""

    name: str
    groups: tuple[str, ...]
    values: tuple[Value, ...]

    @property
    def errors(self) -> list[str]:
        """All errors, in the order of the keys."""
        return [error for value in self.values for error in value.errors]

    def as_json(self) -> dict[str, Any]:
        """See ConfigInfos in Connect's API."""
        return {
            "name": self.name,
            "error_count": len(self.errors),
            "groups": list(self.groups),
            "configs": [value.as_json() for value in self.values],
        }


@dataclass(frozen=True, slots=True)
class WorkerView:
    """What a worker's settings say of the configurations that it takes.

    defaults: its own values for keys of connectors (converters). group_id: its group, None if standalone.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    group_id: str | None = None
    exactly_once: bool = False
    overrides: OverridePolicy = field(default_factory=OverridePolicy)
    is_reference: IsReference = lambda text: False


def find_connector(catalog: Catalog, name: str) -> Plugin:
    """The connector of a class name. Raises Refused for one that is not known."""
    found = catalog.find(name, *CONNECTORS)
    if found is None:
        known = ", ".join(sorted(each.names[0] for each in catalog.plugins if each.kind in CONNECTORS))
        raise Refused(
            400,
            f"Failed to find any class that implements Connector and which name matches {name}, "
            f"available connectors are: {known}",
        )
    return found


def plugin_definitions(catalog: Catalog, name: str) -> list[Definition] | None:
    """The keys of a plugin: its own, then those of every connector if it is one; None for an unknown one."""
    plugin = catalog.find(name, *Kind)
    if plugin is None:
        return None
    if plugin.kind in (Kind.CONVERTER, Kind.HEADER_CONVERTER):
        return converter_definitions(plugin)
    own = definitions_of(table_of(plugin))
    if plugin.kind not in CONNECTORS:
        return own
    known = {each.name for each in own}
    more = base.OF_SINKS if plugin.kind is Kind.SINK else base.OF_SOURCES
    return [*own, *(each for each in (*base.BASE, *more) if each.name not in known)]


def converter_definitions(plugin: Plugin, prefix: str = "") -> list[Definition]:
    """The keys of a converter. Raises Refused for a class that can't be imported."""
    found = []
    for each in definitions_of(table_of(plugin), prefix):
        name = each.setting.name
        group, order, width, shown = base.OF_CONVERTERS.get(name, (None, -1, Width.NONE, ""))
        found.append(
            dataclasses.replace(
                each,
                group=group,
                order=order,
                width=width,
                display_name=shown,
                must_be_given=name == base.CONVERTER_TYPE,
                named=name,
            )
        )
    return sorted(found, key=lambda each: list(_CONVERTER_GROUPS).index(each.group))


def table_of(plugin: Plugin) -> Table:
    """The settings of a plugin. Raises Refused for a class that can't be imported."""
    try:
        table = plugin.load().TABLE
    except Exception as problem:  # the plugin's own code, of any package
        log.warning("the plugin %s can't be loaded", plugin.names[0], exc_info=problem)
        raise Refused(400, f"Failed to load class {plugin.names[0]}: {problem}") from None
    assert isinstance(table, Table), plugin
    return table


def validated(catalog: Catalog, config: Config, worker: WorkerView) -> ConfigInfos:
    """The judgement of a whole configuration. Raises Refused without a class, or with an unknown one."""
    name = config.get(base.CLASS.name)
    if name is None:
        shown = ", ".join(f"{key}={_shown(key, value)}" for key, value in config.items())
        raise Refused(400, f"Connector config {{{shown}}} contains no connector type")
    plugin = find_connector(catalog, name)
    return _Validation(catalog, config, worker, plugin, table_of(plugin)).infos(name)


def _shown(key: str, value: str | None) -> str:
    from ottla.config.unsupported import is_secret

    return "[hidden]" if is_secret(key) else str(value)


class _Validation:
    def __init__(
        self, catalog: Catalog, config: Config, worker: WorkerView, plugin: Plugin, table: Table
    ) -> None:
        self._catalog = catalog
        self._config = config
        self._worker = worker
        self._plugin = plugin
        self._table = table
        self._is_sink = plugin.kind is Kind.SINK
        self._values: dict[str, Value] = {}

    def infos(self, name: str) -> ConfigInfos:
        shared = list(self._base_definitions())
        aliased = list(self._aliased_definitions())
        own = definitions_of(self._table)
        for definition in (*shared, *aliased, *own):
            self._judge(definition)
        unknown = [
            Value(key, errors=[NULL])
            for key, value in self._config.items()
            if value is None and key not in self._values
        ]
        for definition in shared:
            if definition.name in self._config and self._config[definition.name] is None:
                self._values[definition.name].errors.append(NULL)
        self._check_classes()
        self._check_aliases()
        if self._is_sink:
            self._check_sink()
        else:
            self._check_source()
        overrides = self._overrides()
        converters = list(self._converters())
        values = (*unknown, *self._values.values(), *overrides, *converters)
        groups = dict.fromkeys(
            each.definition.group for each in values if each.definition is not None and each.definition.group
        )
        return ConfigInfos(name, tuple(groups), values)

    # -- definitions ----------------------------------------------------------------------------------

    def _base_definitions(self) -> Iterable[Definition]:
        versions = {base.CLASS_VERSION.name: self._plugin.version}
        converters: dict[str, tuple[str, ...]] = {}
        for setting, kind in _CONVERTER_KINDS.items():
            converters[setting.name] = tuple(sorted(self._names(kind)))
            chosen = self._config.get(setting.name) or self._worker.defaults.get(setting.name)
            found = None if chosen is None else self._catalog.find(chosen, kind)
            if found is not None:
                versions[base.CONVERTER_VERSIONS[setting.name]] = found.version
        for definition in (*base.BASE, *(base.OF_SINKS if self._is_sink else base.OF_SOURCES)):
            name = definition.name
            if name in versions:
                version = versions[name]
                yield dataclasses.replace(definition, default=version, recommended=(version,))
            elif name in converters:
                yield dataclasses.replace(
                    definition, default=self._worker.defaults.get(name), recommended=converters[name]
                )
            else:
                yield definition

    def _names(self, kind: Kind) -> list[str]:
        return [each.names[0] for each in self._catalog.plugins if each.kind is kind]

    def _aliases(self, key: str) -> list[str]:
        text = self._config.get(key) or ""
        return list(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))

    def _aliased_definitions(self) -> Iterable[Definition]:
        for setting, (kind, group_title, noun) in _ALIAS_KINDS.items():
            names = tuple(sorted(self._names(kind)))
            for alias in self._aliases(setting.name):
                prefix, group = f"{setting.name}.{alias}.", f"{group_title}: {alias}"
                yield Definition(base.TYPE, group, 0, Width.LONG, f"{noun} type for {alias}", prefix, names)
                plugin = self._found(f"{prefix}type", kind)
                version = None if plugin is None else plugin.version
                yield Definition(
                    base.PLUGIN_VERSION,
                    group,
                    1,
                    Width.LONG,
                    f"{noun} version for {alias}",
                    prefix,
                    () if version is None else (version,),
                    version,
                )
                if plugin is not None:
                    yield from self._of_alias(plugin, prefix, group)

    def _of_alias(self, plugin: Plugin, prefix: str, group: str) -> Iterable[Definition]:
        try:
            own = definitions_of(table_of(plugin), prefix, group)
        except Refused:
            return  # said at its type
        if plugin.kind is Kind.TRANSFORMATION:
            masked = (base.PREDICATE.name, base.NEGATE.name)
            own = [each for each in own if each.setting.name not in masked]
            own += [Definition(each, group, prefix=prefix) for each in (base.NEGATE, base.PREDICATE)]
        for order, definition in enumerate(own, 2):
            yield dataclasses.replace(definition, order=order)

    def _found(self, key: str, kind: Kind) -> Plugin | None:
        name = self._config.get(key)
        return None if name is None else self._catalog.find(name, kind)

    # -- values ---------------------------------------------------------------------------------------

    def _judge(self, definition: Definition) -> None:
        name = definition.name
        text = self._config.get(name)
        is_reference = text is not None and self._worker.is_reference(text)
        self._values[name] = value_of(definition, text, is_reference=is_reference)

    def _refuse(self, key: str, problem: str) -> None:
        self._values[key].errors.append(problem)

    def _check_classes(self) -> None:
        """The classes of converters, transforms and predicates have to be there."""
        for setting, kind in _CONVERTER_KINDS.items():
            self._check_class(setting.name, kind)
        for aliased, (kind, _, noun) in _ALIAS_KINDS.items():
            for alias in self._aliases(aliased.name):
                key = f"{aliased.name}.{alias}.type"
                plugin = self._check_class(key, kind)
                if plugin is not None:
                    try:
                        table_of(plugin)
                    except Refused as problem:
                        self._refuse(key, f"{noun} {alias}: {problem.message}")
        self._check_version(base.CLASS.name, base.CLASS_VERSION.name, self._plugin)

    def _check_class(self, key: str, kind: Kind) -> Plugin | None:
        name = self._config.get(key)
        if name is None or self._worker.is_reference(name):
            return None
        found = self._catalog.find(name, kind)
        if found is None:
            self._values[key].text = None
            self._refuse(
                key, f"Invalid value {name} for configuration {key}: Class {name} could not be found."
            )
        else:
            version = base.CONVERTER_VERSIONS.get(key, key.removesuffix("type") + "plugin.version")
            self._check_version(key, version, found)
        return found

    def _check_version(self, key: str, version_key: str, plugin: Plugin) -> None:
        wanted = self._config.get(version_key)
        if wanted is None or _is_in(plugin.version, wanted):
            return
        problem = (
            f"Plugin {plugin.names[0]} not found with version {wanted}, "
            f"available versions: [{plugin.version}]"
        )
        self._refuse(key, problem)
        self._refuse(version_key, problem)

    def _check_aliases(self) -> None:
        predicates = self._aliases(base.PREDICATES.name)
        for alias in self._aliases(base.TRANSFORMS.name):
            prefix = f"{base.TRANSFORMS.name}.{alias}."
            predicate = self._config.get(f"{prefix}predicate")
            if self._config.get(f"{prefix}negate") is not None and predicate is None:
                self._refuse(
                    f"{prefix}type",
                    f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' "
                    "defining a predicate to be negated.",
                )
            if predicate is not None and predicate not in predicates and f"{prefix}predicate" in self._values:
                self._refuse(
                    f"{prefix}predicate",
                    f"Invalid value {predicate} for configuration {prefix}predicate: "
                    "no predicate has this alias",
                )

    def _check_sink(self) -> None:
        config = self._config
        topics, pattern = config.get("topics") or "", config.get("topics.regex") or ""
        dead = (config.get(base.DEAD_LETTERS.name) or "").strip()
        names = [each.strip() for each in topics.split(",")] if topics.strip() else []
        if names and not all(names):
            self._refuse("topics", "Configuration 'topics' values must not be empty.")
        elif len(set(names)) < len(names):
            self._refuse("topics", "Configuration 'topics' values must not be duplicated.")
        both = "topics and topics.regex are mutually exclusive options, but both are set."
        neither = "Must configure one of topics or topics.regex"
        if bool(topics.strip()) == bool(pattern.strip()):
            for key in ("topics", "topics.regex"):
                self._refuse(key, both if topics.strip() else neither)
        if dead and dead in names:
            self._refuse(
                "topics",
                f"The DLQ topic '{dead}' may not be included in the list of topics "
                f"('topics=[{', '.join(names)}]') consumed by the connector",
            )
        is_regex = bool(pattern.strip()) and not self._values["topics.regex"].errors
        if dead and is_regex and re.fullmatch(pattern, dead):
            self._refuse(
                "topics.regex",
                f"The DLQ topic '{dead}' may not be matched by the regex for the topics "
                f"('topics.regex={pattern}') consumed by the connector",
            )
        self._check_group()

    def _check_group(self) -> None:
        """A sink's group must not be the workers' own."""
        own = self._worker.group_id
        given = self._config.get("consumer.override.group.id")
        name = self._config.get("name")
        if own is None:
            return
        if given is None and name is not None and own == f"connect-{name}":
            self._refuse(
                "name",
                f"Consumer group for sink connector named {name} conflicts with Connect worker group {own}",
            )
        if given == own:
            key = "consumer.override.group.id"
            problem = f"Consumer group {given} conflicts with Connect worker group {own}"
            self._values[key] = Value(key, given, [problem])

    def _check_source(self) -> None:
        wanted = (self._config.get(base.EXACTLY_ONCE_SUPPORT.name) or "").strip().lower()
        if wanted == "required" and not self._worker.exactly_once:
            self._refuse(
                base.EXACTLY_ONCE_SUPPORT.name,
                "This worker does not have exactly-once source support enabled.",
            )
        boundary = (self._config.get(base.BOUNDARY.name) or "").strip().lower()
        if boundary == "connector" and not hasattr(self._plugin.load(), "transaction_end"):
            self._refuse(
                base.BOUNDARY.name,
                "The connector does not support connector-defined transaction boundaries with the given "
                "configuration. Please reconfigure it to use a different transaction boundary definition.",
            )

    # -- clients and converters -----------------------------------------------------------------------

    def _overrides(self) -> list[Value]:
        dead = (self._config.get(base.DEAD_LETTERS.name) or "").strip()
        creates = any(key.startswith("topic.creation.") for key in self._config)
        found = []
        for prefix in prefixes_of(self._is_sink, dead_letters=bool(dead), topic_creation=creates):
            for key, text in self._config.items():
                if key.startswith(prefix) and key not in self._values:
                    found.append(self._worker.overrides.judged(prefix, key, text))
        return found

    def _converters(self) -> Iterable[Value]:
        """The keys of the converters that the configuration itself names."""
        for setting, kind in _CONVERTER_KINDS.items():
            plugin = self._found(setting.name, kind)
            if plugin is None or self._values[setting.name].errors:
                continue
            try:
                found = converter_definitions(plugin, f"{setting.name}.")
            except Refused as problem:
                self._refuse(setting.name, problem.message)
                continue
            role = setting.name.removesuffix(".converter")
            for definition in found:
                text = self._config.get(definition.name)
                if text is None and definition.setting.name == base.CONVERTER_TYPE:
                    text = role
                is_reference = text is not None and self._worker.is_reference(text)
                yield value_of(definition, text, is_reference=is_reference)


def _is_in(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one, or within a range as Maven writes it: [4.0,5.0)."""
    text = wanted.strip()
    if text == "latest" or not text:
        return True
    if text[0] not in "[(":
        return text == version
    low, comma, high = text[1:-1].partition(",")
    if not comma:
        return low.strip() == version
    own = _numbers(version)
    above = not low.strip() or own > _numbers(low) or (text[0] == "[" and own == _numbers(low))
    below = not high.strip() or own < _numbers(high) or (text[-1] == "]" and own == _numbers(high))
    return above and below


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version))
