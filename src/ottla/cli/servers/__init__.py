"""Commands that start processes: brokers, services, applications, the demo."""
