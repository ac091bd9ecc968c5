"""The parts that all commands of `ottla` share: parsing, help, output, errors, clusters and their profiles."""
