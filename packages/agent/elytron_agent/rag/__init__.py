"""Embeddings of a user's memories as a service: rows, exact cosine search, quotas, and a cache of vectors."""
