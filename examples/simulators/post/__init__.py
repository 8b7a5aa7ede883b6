"""A post office: a mail server and a webhook endpoint, which keep what they are given and show it on one page."""
