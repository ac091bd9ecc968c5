"""Counts of versions by format and state, kept up with the image: a scrape must not walk all of them."""

from __future__ import annotations

from collections import Counter

from ottla.schemas.model import SchemaType


class VersionCounts:
    """registered, deleted: since the first record; live and softly deleted versions: those that there are."""

    def __init__(self) -> None:
        self.registered: Counter[SchemaType] = Counter()
        self.deleted: Counter[SchemaType] = Counter()
        self.live: Counter[SchemaType] = Counter()
        self.softly_deleted: Counter[SchemaType] = Counter()

    def changed(
        self, type_before: SchemaType | None, was_deleted: bool, type_now: SchemaType | None, is_deleted: bool
    ) -> None:
        """A version is in another state. type_before, type_now: None where there is none before or now."""
        if type_before is not None:
            (self.softly_deleted if was_deleted else self.live)[type_before] -= 1
        if type_now is not None:
            (self.softly_deleted if is_deleted else self.live)[type_now] += 1
        was_live = type_before is not None and not was_deleted
        is_live = type_now is not None and not is_deleted
        if is_live and not was_live and type_now is not None:
            self.registered[type_now] += 1
        elif was_live and not is_live and type_before is not None:
            self.deleted[type_before] += 1
        elif type_before is None and type_now is not None:
            # Its life was before the first record that is left.
            self.deleted[type_now] += 1
