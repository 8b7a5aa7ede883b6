"""The run: set up, serve until told to stop, stop."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack

from config import database, embedded
from config.supervisor.addresses import Addresses, addresses_taken
from config.supervisor.locks import try_lock, wait_for_last_run
from config.supervisor.processes import STOP_SECONDS, Service, next_start, stop, tend
from config.supervisor.services import services_of
from config.supervisor.signals import Signals, Stopped
from config.supervisor.words import SetupFailed, log_of, say, short
from config.var import PROJECT, var_file

READY_SECONDS = 90


def run() -> int:
    """Set up, serve until told to stop, stop. The exit code is for the shell: 2 when the database cannot be used."""
    lock = os.open(var_file("run", "supervisor.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    if not try_lock(lock):
        address = os.pread(lock, 1000, 0).decode()
        where = f"runs at {address}" if address else "is being started by another `make run`"
        say(f"Counterfoil already {where}. Stop it with Ctrl-C where it was started.")
        return 0
    os.ftruncate(lock, 0)
    signals = Signals()
    services: list[Service] = []
    held = ExitStack()
    try:
        services_lock = wait_for_last_run(signals)
        database.check_server(database.login_url())
        addresses = held.enter_context(addresses_taken())
        services.extend(services_of(addresses, services_lock))
        _serve(services, addresses, signals, announce=lambda address: os.pwrite(lock, address.encode(), 0))
    except Stopped:
        return 0
    except (database.DatabaseUnusable, SetupFailed) as failed:
        say(str(failed))
        return 2
    finally:
        os.ftruncate(lock, 0)
        if services:
            say("Stopping …")
        stop([s for s in services if not s.is_simulator], STOP_SECONDS)
        stop([s for s in services if s.is_simulator], 3)
        held.close()
        embedded.leave_server()
        if services:
            say("Stopped. `make run` continues where this ended.")
    return 0


def _serve(
    services: list[Service],
    addresses: Addresses,
    signals: Signals,
    *,
    announce: Callable[[str], object],
) -> None:
    environment = addresses.environment()
    _step("Preparing the database", ["manage.py", "migrate", "--noinput", "-v", "1"], environment, signals)
    _step(
        "Collecting static files",
        ["manage.py", "collectstatic", "--noinput", "-v", "0"],
        environment,
        signals,
    )
    _step("Loading the sample tenant", ["manage.py", "load_sample"], environment, signals)
    for service in services:
        service.start()
    _wait_until_healthy(addresses.web, services, signals)
    _step("Submitting the example jobs", ["manage.py", "submit_examples"], environment, signals)
    announce(addresses.web)
    _introduce(addresses, environment)
    while True:
        signals.wait(next_start(services))
        tend(services)


def _introduce(addresses: Addresses, environment: dict[str, str]) -> None:
    people = subprocess.run(
        [sys.executable, "manage.py", "load_sample", "--show"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    say("")
    say(f"Counterfoil is ready:  {addresses.web}")
    say(f"Simulated receiver:    {addresses.erp}")
    say(f"Simulated provider:    {addresses.provider}")
    say(f"Simulated bureau:      {addresses.bureau}")
    say(f"Simulated index:       {addresses.index}")
    say(f"Simulated post office: {addresses.post} (e-mail and webhooks)")
    say("")
    say(people.stdout.strip())
    say("")
    say(f"Logs are in {short(var_file('log', 'web.log').parent)}. Ctrl-C stops everything.")


def _step(title: str, command: list[str], environment: dict[str, str], signals: Signals) -> None:
    signals.check()
    say(f"{title} …")
    log = var_file("log", "setup.log")
    with open(log, "ab") as output:
        start = output.tell()
        ended = subprocess.run(
            [sys.executable, *command],
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    signals.check()
    if ended.returncode != 0:
        with open(log, "rb") as written:
            written.seek(start)
            tail = written.read().decode(errors="replace").strip().splitlines()[-15:]
        say("\n".join(f"    {line}" for line in tail))
        raise SetupFailed(f"{title} failed (exit code {ended.returncode}): all of it is in {short(log)}.")


def _wait_until_healthy(address: str, services: list[Service], signals: Signals) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _is_healthy(address):
        if time.monotonic() > deadline:
            raise SetupFailed(
                f"{address}/healthz did not answer within {READY_SECONDS} s: see {short(log_of('web'))}."
            )
        signals.wait(0.2)
        tend(services)


def _is_healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=2) as answer:  # noqa: S310  (our own address)
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
