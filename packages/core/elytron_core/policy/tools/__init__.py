"""Experience with tools, and fingerprints of their registries."""
