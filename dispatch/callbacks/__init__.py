"""What receivers send by themselves: signed, kept as it came, and taken as evidence."""
