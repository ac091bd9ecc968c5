"""Writes docs/metrics.md, the Grafana dashboards and Prometheus' alert rules from the tables of metrics.

python tools/generate_monitoring.py            # docs/metrics.md and packaging/monitoring
python tools/generate_monitoring.py --check    # writes nothing; 1 if a file is not up to date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from monitoring.alerts import ALERTS
from monitoring.dashboards import all_dashboards
from monitoring.expressions import names_in, series_names
from monitoring.page import page
from monitoring.rules import rules
from ottla.metrics.tables import all_tables

REPOSITORY: Final = Path(__file__).resolve().parent.parent
MONITORING: Final = REPOSITORY / "packaging" / "monitoring"


def files() -> dict[Path, str]:
    """Every file that is made, and its text. Raises ValueError for an alert about a metric of no table."""
    tables = all_tables()
    metrics = [metric for table in tables for metric in table.metrics]
    known = series_names(metrics) | {"up"}
    for alert in ALERTS:
        if not names_in(alert.expression, known):
            raise ValueError(f"{alert.name} asks for no metric of the tables: {alert.expression}")
    made = {
        REPOSITORY / "docs" / "metrics.md": page(tables, ALERTS),
        MONITORING / "prometheus" / "ottla-alerts.yml": rules(ALERTS),
    }
    for which, text in all_dashboards(metrics).items():
        made[MONITORING / "grafana" / f"ottla-{which.value.lower()}.json"] = text
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, tell which files differ")
    options = parser.parse_args()
    made = files()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    old = set((MONITORING / "grafana").glob("ottla-*.json")) - set(made)
    if options.check:
        for path in sorted((*stale, *old)):
            print(f"{path.relative_to(REPOSITORY)} is not up to date: `make reference`", file=sys.stderr)
        return 1 if stale or old else 0
    for path in old:
        path.unlink()
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[path], encoding="utf-8")
        print(path.relative_to(REPOSITORY))
    return 0


if __name__ == "__main__":
    sys.exit(main())
