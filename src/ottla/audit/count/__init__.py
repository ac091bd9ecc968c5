"""`ottla audit count`: reads a cluster and writes down what is there."""
