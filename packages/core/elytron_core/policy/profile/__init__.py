"""What a profile of a person shows, and how it is worded."""
