"""Routes of the agent as a service, by what they are about."""
