"""Memory strategies: what an agent's memory does before and after a run, selected by configuration."""
