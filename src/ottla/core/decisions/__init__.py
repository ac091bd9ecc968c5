"""The controller's decisions: an image and a request in, records and an answer out."""
