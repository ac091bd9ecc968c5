"""The parts that all commands share: parsing, help, output, errors, clusters and their profiles."""
