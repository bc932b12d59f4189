"""How writes to facts, skills, records and subjects become changes."""
