"""Due parts of maintenance, the states of a job, and the budget of models."""
