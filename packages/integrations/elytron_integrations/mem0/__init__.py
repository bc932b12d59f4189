"""mem0's classes and dictionaries over an Elytron memory."""
