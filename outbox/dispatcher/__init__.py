"""The dispatcher: delivers messages from every worker process. Who is at it, and where it may be killed, is in
`dispatcher.py`; what each way of delivering means, in `webhook.py` and `mail.py`."""
