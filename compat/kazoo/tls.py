"""kazoo over TLS: no reply may wait for the next ping.

kazoo reads one reply for each `select` and does not check the TLS layer for the rest of a record. If a server puts two
replies into one record, the second is not read until the next ping, a third of the session timeout later.

Arguments: the address of a server, and the file with the certificate of its authority. Prints `ok: ...` on success.
"""

import sys
import threading
import time

from kazoo.client import KazooClient

# With this session timeout, a ping is sent after 3.3 s.
TIMEOUT = 10.0
LIMIT = 2.0
ROUNDS = 20


def main(address, authority):
    client = KazooClient(address, timeout=TIMEOUT, use_ssl=True, ca=authority, verify_certs=True)
    client.start(timeout=15)
    worst = {}

    def check(name, run):
        for _ in range(ROUNDS):
            start = time.monotonic()
            run()
            took = time.monotonic() - start
            worst[name] = max(took, worst.get(name, 0.0))
            if took > LIMIT:
                sys.exit(f"this does not hold: {name} takes less than {LIMIT} s, it took {took:.1f} s")

    client.ensure_path("/tls")

    def many_reads():
        answers = [client.exists_async("/tls") for _ in range(20)]
        for answer in answers:
            assert answer.get(timeout=TIMEOUT) is not None

    def create_under_own_watch():
        fired = threading.Event()
        client.get_children("/tls", watch=lambda event: fired.set())
        path = client.create("/tls/child-", sequence=True)
        assert fired.wait(TIMEOUT)
        client.delete(path)

    def events_of_a_multi():
        fired = threading.Semaphore(0)
        paths = [f"/tls/watched-{number}" for number in range(50)]
        for path in paths:
            assert client.exists(path, watch=lambda event: fired.release()) is None
        transaction = client.transaction()
        for path in paths:
            transaction.create(path)
        transaction.commit()
        for _ in paths:
            assert fired.acquire(timeout=TIMEOUT)
        transaction = client.transaction()
        for path in paths:
            transaction.delete(path)
        transaction.commit()

    check("20 exists at once", many_reads)
    check("a create under one's own child watch", create_under_own_watch)
    check("50 events of a multi", events_of_a_multi)
    client.stop()
    print("ok: " + ", ".join(f"{name}: {took * 1000:.0f} ms" for name, took in worst.items()), flush=True)


main(*sys.argv[1:])
