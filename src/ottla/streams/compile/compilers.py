"""The compiler of each kind of node; a new kind gets its line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.streams.compile import keyed, native_aggregate, native_join, reading, stateless, writing
from ottla.streams.compile.given import NodeCompiler
from ottla.streams.plan.nodes.aggregate import NativeAggregate
from ottla.streams.plan.nodes.join import GlobalJoin, StreamJoin
from ottla.streams.plan.nodes.keyed import Keyed
from ottla.streams.plan.nodes.sink import ToInternalTopic, ToSpark, ToTopic
from ottla.streams.plan.nodes.source import Boundary, GlobalTable, Source
from ottla.streams.plan.nodes.stateless import Filter, FlatMap, Map, Merge, Peek

COMPILERS: Final[Mapping[type[object], NodeCompiler]] = MappingProxyType(
    {
        Source: reading.source,
        Boundary: reading.boundary,
        GlobalTable: reading.global_table,
        Filter: stateless.filtered,
        Map: stateless.mapped,
        FlatMap: stateless.flat_mapped,
        Merge: stateless.merged,
        Peek: stateless.peeked,
        NativeAggregate: native_aggregate.aggregated,
        StreamJoin: native_join.streams_joined,
        GlobalJoin: native_join.globally_joined,
        Keyed: keyed.keyed,
        ToTopic: writing.to_topic,
        ToInternalTopic: writing.to_internal_topic,
        ToSpark: writing.to_spark,
    }
)
