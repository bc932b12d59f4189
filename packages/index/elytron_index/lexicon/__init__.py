"""Terms, related words, typos, and text vectors."""
