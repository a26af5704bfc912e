"""Prometheus with serverset_sd_configs: it watches a path in ZooKeeper, whose children are its targets.

Five members stay registered all the time; others come and go after each fault. The leader is killed three times and
stopped once for 15 s. After each change Prometheus has to list the members that are registered, and it must never
list fewer than the five.

Figures: changes, changes that Prometheus had not seen after a minute, the slowest one that it saw (Prometheus applies
discoveries every 5 s), and how often one of the five was missing.
"""

import contextlib
import json
import os
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from support import FOLDER, SERVERS, Process, Thread, fault, free_ports, get, main, note, pause, resume, wait_for

KILLS = 3
PAUSE_SECONDS = 15
PATH = "/discovery/members"


def run():
    # Members are registered by a client that tries again until it succeeds.
    registry = KazooClient(SERVERS, timeout=30, connection_retry={"max_tries": -1}, command_retry={"max_tries": -1})
    registry.start(30)
    registry.ensure_path(PATH)
    members = {}

    def add(port):
        endpoint = {"host": "127.0.0.1", "port": port}
        value = {"serviceEndpoint": endpoint, "additionalEndpoints": {}, "status": "ALIVE", "shard": port}
        path = f"{PATH}/member_{port:010}"
        # A create or delete whose reply was lost is sent again.
        with contextlib.suppress(NodeExistsError):
            registry.retry(registry.create, path, json.dumps(value).encode())
        members[port] = path

    def remove(port):
        with contextlib.suppress(NoNodeError):
            registry.retry(registry.delete, members.pop(port))

    web = free_ports(1)[0]
    config = FOLDER / "prometheus.yml"
    # JSON is YAML.
    discovery = {"servers": SERVERS.split(","), "paths": [PATH], "timeout": "10s"}
    config.write_text(
        json.dumps({"scrape_configs": [{"job_name": "members", "scrape_interval": "1h", "serverset_sd_configs": [discovery]}]})
    )
    stable = list(range(1, 6))
    for port in stable:
        add(port)
    command = [os.environ["APP_PROMETHEUS"], f"--config.file={config}", f"--storage.tsdb.path={FOLDER}/data"]
    prometheus = Process("prometheus", [*command, f"--web.listen-address=127.0.0.1:{web}"])

    def targets():
        active = json.loads(get(f"http://127.0.0.1:{web}/api/v1/targets?state=active"))["data"]["activeTargets"]
        return {int(target["discoveredLabels"]["__meta_serverset_shard"]) for target in active}

    wait_for("Prometheus lists the members", lambda: targets() == set(members), 60)
    gaps = 0

    def observe():
        nonlocal gaps
        gaps += not targets().issuperset(stable)
        time.sleep(0.2)

    observer = Thread(observe)
    changes, missed, slowest = 0, 0, 0.0

    def change(port):
        """Adds a member and removes the one before, and measures until Prometheus lists it so."""
        nonlocal changes, missed, slowest
        add(port)
        if port - 1 in members and port - 1 not in stable:
            remove(port - 1)
        began = time.monotonic()
        changes += 1
        try:
            wait_for("Prometheus lists the members", lambda: targets() == set(members), 60)
            slowest = max(slowest, time.monotonic() - began)
        except AssertionError as why:
            note(why)
            missed += 1

    port = 100
    change(port)
    for _ in range(KILLS):
        fault()
        port += 1
        change(port)
    pause()
    time.sleep(PAUSE_SECONDS)
    resume()
    port += 1
    change(port)
    observer.finish()
    prometheus.end()
    registry.stop()
    return {"changes": changes, "missed": missed, "slowest_s": f"{slowest:.1f}", "gaps": gaps}


main(run)
