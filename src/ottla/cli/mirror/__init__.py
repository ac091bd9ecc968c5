"""`ottla mirror`: runs mirrors between clusters, and tells how they are."""
