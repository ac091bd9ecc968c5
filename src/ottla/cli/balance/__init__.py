"""`ottla balance`: plans of where replicas and leaders go, carried out, and the service."""
