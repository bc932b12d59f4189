"""What a set of fixtures must reach."""
