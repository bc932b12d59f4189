"""Points, weights and scores of what a query finds."""
