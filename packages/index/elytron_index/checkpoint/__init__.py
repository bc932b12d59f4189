"""An index as bytes, out and in."""
