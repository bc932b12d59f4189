"""Memory behind the unchanged base URL of a model API: a relay that reads a copy."""
