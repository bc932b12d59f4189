"""Sessions that coding assistants left on disk: one reader for each assistant, and the import into memory."""
