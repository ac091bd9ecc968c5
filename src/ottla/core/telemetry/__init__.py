"""Client telemetry (KIP-714): which metrics each client is asked for, and which pushes are taken."""
