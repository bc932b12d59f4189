"""What is removed from a space, with proof."""
