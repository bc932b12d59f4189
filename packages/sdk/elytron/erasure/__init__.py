"""Erasure from a space, with proof."""
