"""Whether a running query can become another one, going on from where it stands.

A query without state may change all but what it reads: it stops behind a batch, and the new one goes on at
the very offsets where it stopped. One with state also has to keep what its state is made of. What is refused
here is refused before anything is written, with the reason.
"""

from __future__ import annotations

from ottla.sql.language.statements import Emit
from ottla.sql.plan.query_plan import QueryPlan
from ottla.sql.plan.statement_plan import PutQuery


def why_not_replaceable(old: PutQuery, new: PutQuery) -> str | None:
    """Why the new query can't take the old one's place; None if it can."""
    before, after = old.query, new.query
    if [each.source.topic for each in before.sources] != [each.source.topic for each in after.sources]:
        return "it reads other sources: where it would go on in them is not known"
    if _shape(before) != _shape(after):
        return "its joins are others: what they have kept is of the former ones"
    if not (before.grouped or before.joins):
        return None
    if before.group_by != after.group_by:
        return "it groups by something else: the groups so far are those of the former key"
    if before.window != after.window:
        return "its windows are others: the groups so far are those of the former windows"
    if before.aggregates != after.aggregates:
        return "its aggregates are others: those so far were not worked out for the rows that are gone"
    if before.ranking != after.ranking:
        return "it ranks otherwise: rows that the former order has left out are gone"
    if before.exploded != after.exploded:
        return "its table functions are others"
    if (before.emit is Emit.FINAL) is not (after.emit is Emit.FINAL):
        return "EMIT FINAL keeps other state than EMIT CHANGES"
    if before.partition_by != after.partition_by or before.new_key is not after.new_key:
        return "it has another key"
    if before.joins and before.where != after.where:
        return "the filter of a join can't change: rows of the former one are in its state"
    return None


def _shape(query: QueryPlan) -> list[object]:
    return [(each.kind, each.how, each.left_key, each.right_key, each.window) for each in query.joins]
