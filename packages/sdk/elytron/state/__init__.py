"""What a runtime remembers between calls."""
