"""What a server of the command shows beside the operations."""
