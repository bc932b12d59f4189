"""What a step must answer, and how answers differ."""
