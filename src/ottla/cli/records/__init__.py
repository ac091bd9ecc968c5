"""Commands that write, read and measure records: `ottla produce`, `ottla consume`, `ottla bench`."""
