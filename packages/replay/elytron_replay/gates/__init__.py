"""Gates for a set of fixtures: coverage of operations, and quality."""
