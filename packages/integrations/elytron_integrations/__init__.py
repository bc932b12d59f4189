"""Memory for programs that were written for others: mem0's names, clients of model APIs, and agent frameworks."""
