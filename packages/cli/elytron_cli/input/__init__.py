"""Options, and the files and values that a command is given."""
