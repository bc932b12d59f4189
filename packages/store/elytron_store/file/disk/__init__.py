"""Places of files, locks on them, and what their failures mean."""
