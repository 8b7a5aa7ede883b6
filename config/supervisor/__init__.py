"""`make run`: everything on one machine, for trying it out and for development.

Sets the database up, then keeps the web server, the workers and the simulators (a receiver, a model provider, a document
index) running as separate processes, each with its log in `var/log`. A process that ends, however, is started again after a
pause that grows. Ctrl-C and SIGTERM stop everything; if this process is killed, the kernel sends its children SIGTERM.

    supervisor.lock   held by this process: the second `make run` says where the first one listens
    services.lock     held by this process and inherited by the services: what they are of a run that was killed
                      must be gone before the next one starts its own
"""
