"""Links: this broker fetches the mirror topics that it leads from their source clusters."""
