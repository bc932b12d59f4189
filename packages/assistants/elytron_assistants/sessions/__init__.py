"""Session files of coding assistants: one reader per assistant, and the import into memory."""
