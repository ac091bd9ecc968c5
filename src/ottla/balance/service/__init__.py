"""`ottla balance serve`: plans and executions over HTTP in Cruise Control's shape, self-healing, metrics."""
