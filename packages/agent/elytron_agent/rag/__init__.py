"""Embeddings of a user's memories as a service: rows, an exact search by cosine, quotas and a cache of vectors."""
