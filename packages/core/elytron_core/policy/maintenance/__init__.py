"""What is due, the states of a job, and the budget of models."""
