"""The readable tree: a space as folders and files, made when they are read."""
