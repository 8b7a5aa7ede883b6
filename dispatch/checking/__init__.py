"""Checking that a receiver keeps its contract: requests of our own to a sandbox, and where its answers differ."""
