"""Memory for existing programs: mem0's API, clients of model APIs, and agent frameworks."""
