"""What hosts of agents want: configuration, rules and hooks."""
