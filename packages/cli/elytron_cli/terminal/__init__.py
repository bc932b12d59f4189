"""What is printed and asked at a terminal."""
