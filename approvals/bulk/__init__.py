"""Deciding several proposals together: the page that is confirmed, and what came of each."""
