"""The pipelines' stories, played against real processes that are really killed (`manage.py demo NAME`)."""
