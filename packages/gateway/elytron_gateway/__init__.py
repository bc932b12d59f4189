"""The Memory Gateway: users and keys, resources, sessions, search scopes, overrides."""
