"""Transfer of spaces to files and between stores."""
