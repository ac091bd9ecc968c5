"""What `generate_monitoring.py` makes of the tables of metrics: dashboards, alert rules, a page."""
