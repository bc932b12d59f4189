"""Lifecycle, pages, links and citations of stored turns."""
