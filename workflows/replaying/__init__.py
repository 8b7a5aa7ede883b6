"""Replay: a job's state folded back from its journal and attempts, and one attempt run again without any effect."""
