"""The metrics of the audit are the sums of the last day's rows."""

from __future__ import annotations

import random
from collections import Counter

from ottla.audit.core.rows import Row, State
from ottla.audit.core.view import DAY_MS, AuditView
from ottla.audit.observing import serve_families
from ottla.metrics.tables import audit as table

BUCKET_MS = 600_000
NOW_MS = 1_700_000_400_000


def test_tiers_have_their_sums_of_a_day() -> None:
    dice = random.Random()
    view = AuditView()
    wanted: Counter[tuple[str, str]] = Counter()
    incomplete: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for number in range(400):
        tier, lost, counted = dice.choice("ab"), dice.choice([0, 0, 3]), dice.randrange(1, 100)
        start_ms = (NOW_MS - dice.randrange(2 * DAY_MS)) // BUCKET_MS * BUCKET_MS
        state = State.INCOMPLETE if lost else State.COMPLETE
        row = Row(
            f"topic-{number}",
            tier,
            start_ms,
            BUCKET_MS,
            state,
            sent=counted + lost,
            counted=counted,
            lost=lost,
        )
        view.take(row)
        if start_ms >= NOW_MS - DAY_MS:
            wanted.update({(tier, "sent"): counted + lost, (tier, "counted"): counted, (tier, "lost"): lost})
            incomplete[tier] += bool(lost)
            there[tier] += counted
    found = {family.metric: dict(family.samples) for family in serve_families(view, NOW_MS)}
    messages = found[table.MESSAGES]
    assert {key: messages[key] for key in wanted} == wanted
    assert {state for _, state in messages} == {"sent", "counted", "lost", "doubled", "late", "unreported"}
    for tier in "ab":
        assert found[table.INCOMPLETE][tier,] == incomplete[tier]
        assert abs(found[table.COMPLETE][tier,] - 100 * there[tier] / wanted[tier, "sent"]) < 1e-9
