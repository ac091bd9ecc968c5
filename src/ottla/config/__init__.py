"""Settings: one system for the broker's, the services' and the connectors'."""
