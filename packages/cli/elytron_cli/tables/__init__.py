"""Reports as people read them at a terminal, a module for each family."""
