"""Links, origins, and heads of journals."""
