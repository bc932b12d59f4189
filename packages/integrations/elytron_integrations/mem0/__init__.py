"""mem0 programs: its classes and dictionaries over a memory here."""
