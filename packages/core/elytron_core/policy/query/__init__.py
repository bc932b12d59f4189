"""Reading of a question: what it asks for."""
