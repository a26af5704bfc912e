"""One client holds a lock, an ephemeral node and a watch, another one waits for the lock, while the servers under both are replaced.

The argument is the connect string. Each `@fault` that it prints stands for one replacement. Prints `ok: ...` on success.
"""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

REPLACEMENTS = 3
LIMIT_S = 60
PARENT = "/held-by-kazoo"


def check(holds, what):
    if not holds:
        sys.exit(f"this does not hold: {what}")


class Client:
    def __init__(self, servers):
        retry = KazooRetry(max_tries=300, delay=0.1, backoff=1, max_jitter=0)
        self.zk = KazooClient(servers, timeout=20.0, connection_retry=retry, command_retry=retry)
        self.lost = 0
        self.zk.add_listener(self.changed)
        self.zk.start(timeout=30)
        self.id = self.zk.client_id[0]

    def changed(self, state):
        self.lost += state == KazooState.LOST

    def check_same(self):
        check(self.lost == 0 and self.zk.client_id[0] == self.id, "the session is the same")


def replacement():
    print("@fault", flush=True)
    check(sys.stdin.readline().strip() == "done", "the servers were replaced")


def run(servers):
    holder, waiter = Client(servers), Client(servers)
    holder.zk.ensure_path(f"{PARENT}/signal")
    holder.zk.create(f"{PARENT}/mine", ephemeral=True)
    lock = holder.zk.Lock(f"{PARENT}/lock", "holder")
    lock.acquire(timeout=LIMIT_S)
    two, handed_on = threading.Event(), threading.Event()

    @holder.zk.ChildrenWatch(f"{PARENT}/lock")
    def queue(children):
        if len(children) == 2:
            two.set()

    def wait_for_lock():
        waiter.zk.Lock(f"{PARENT}/lock", "waiter").acquire()
        handed_on.set()

    threading.Thread(target=wait_for_lock, daemon=True).start()
    seen = threading.Condition()
    values = []

    # kazoo forgets its watches when a connection ends; this recipe sets them again.
    @holder.zk.DataWatch(f"{PARENT}/signal")
    def changed(data, _stat):
        with seen:
            if not values or values[-1] != data:
                values.append(data)
            seen.notify_all()

    def contenders():
        return holder.zk.retry(holder.zk.Lock(f"{PARENT}/lock").contenders)

    check(two.wait(LIMIT_S), "two are in the queue of the lock")
    for number in range(1, REPLACEMENTS + 1):
        replacement()
        value = str(number).encode()
        waiter.zk.retry(waiter.zk.set, f"{PARENT}/signal", value)
        with seen:
            check(seen.wait_for(lambda: values[-1] == value, LIMIT_S), f"the watch fires after replacement {number}")
        mine = holder.zk.retry(holder.zk.exists, f"{PARENT}/mine")
        check(mine is not None and mine.ephemeralOwner == holder.id, "the ephemeral node is still there")
        holder.check_same()
        waiter.check_same()
        check(contenders() == ["holder", "waiter"] and not handed_on.is_set(), "the lock is still held, and one waits for it")
    check(len(values) == REPLACEMENTS + 1, f"each change is seen once: {values}")
    lock.release()
    check(handed_on.wait(LIMIT_S), "the lock is handed on")
    for client in (holder, waiter):
        client.zk.stop()
    return "a lock, an ephemeral node, a watch and both sessions kept"


print("ok: " + run(sys.argv[1]), flush=True)
