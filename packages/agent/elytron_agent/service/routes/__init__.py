"""Routes of the agent service, grouped by subject."""
