"""Parts of journals that the engines share."""
