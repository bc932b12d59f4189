"""Memory for programs that were written for others: mem0's names, and the clients of model APIs."""
