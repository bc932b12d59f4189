"""The page on which a user talks with the agent."""
