"""Alert rules as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import yaml

from monitoring.alerts import Alert

#: Where an alert's page is.
RUNBOOK: Final = "docs/metrics.md#the-alert-rules"


def rules(alerts: Sequence[Alert]) -> str:
    """The text of the file of rules; a group for each subject, in the order of the alerts."""
    groups = [
        {"name": f"ottla-{subject}", "rules": [_rule(each) for each in together]}
        for subject, together in groupby(alerts, lambda each: each.subject)
    ]
    head = "# Made by tools/generate_monitoring.py; changes belong into tools/monitoring/alerts.py.\n"
    return head + yaml.safe_dump({"groups": groups}, sort_keys=False, width=110, allow_unicode=True)


def _rule(alert: Alert) -> Mapping[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.after,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.summary,
            "description": f"{alert.meaning} {alert.remedy}",
            "runbook": RUNBOOK,
        },
    }
