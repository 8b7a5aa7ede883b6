"""Two real processes that the examples talk to over HTTP: a receiver and a model provider."""
