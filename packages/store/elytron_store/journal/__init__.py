"""What the engines share of keeping journals."""
