"""The operations as an A2A agent."""
