"""Pages, links and citations of stored turns."""
