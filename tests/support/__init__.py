"""What tests share, in rooms by subject. Tests import from here; nothing here imports a test."""
