"""Output and questions at a terminal."""
