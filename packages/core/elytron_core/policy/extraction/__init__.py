"""Facts and notes from turns, by a model or by rules."""
