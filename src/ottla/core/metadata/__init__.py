"""The cluster's image built from metadata records, and the controller's decisions."""
