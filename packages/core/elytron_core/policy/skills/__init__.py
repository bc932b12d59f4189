"""Quality, likeness, governance and files of runtime skills."""
