"""What `make bench` measures, ours and the peers'."""

CHAIN = 50
"""Steps of one chain."""
