"""Backing up and putting back: what a dump holds, and that it holds what the database did."""
