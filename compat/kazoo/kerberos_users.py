"""kazoo with SASL GSSAPI.

Arguments: `kerberos` on servers where authentication is optional, or `kerberos-required`, and the connect string. Prints
`@fault` to have the leader killed and restarted, and `ok: ...` on success. The environment names the keys of all users, which
are those of crates/harness/src/compat/kerberos.rs.
"""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, SessionClosedRequireSaslError
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, make_acl

REALM = "POLE.TEST"


def client(servers, principal=None, **options):
    sasl = principal and {"mechanism": "GSSAPI", "principal": f"{principal}@{REALM}", **options}
    retry = KazooRetry(max_tries=300, delay=0.1, backoff=1, max_jitter=0)
    return KazooClient(servers, timeout=20.0, sasl_options=sasl, connection_retry=retry, command_retry=retry)


def started(*args):
    new = client(*args)
    new.start(timeout=30)
    return new


def refused(run, *errors):
    """Returns the name of the error with which a call fails."""
    try:
        run()
    except errors as error:
        return type(error).__name__
    sys.exit(f"this does not hold: {run} fails with one of {errors}")


def fails(servers, principal, **options):
    """Waits until a client is told that the server does not accept it."""
    new = client(servers, principal, **options)
    told = threading.Event()
    new.add_listener(lambda _: told.set() if new.client_state == KeeperState.AUTH_FAILED else None)
    new.start_async()
    check(told.wait(30), f"{principal} with {options} is refused")
    new.stop()


def check(holds, what):
    if not holds:
        sys.exit(f"this does not hold: {what}")


def fault():
    print("@fault", flush=True)
    check(sys.stdin.readline().strip() == "done", "the fault was done")


def owner(client, path):
    acl = client.get_acls(path)[0][0]
    return acl.id.scheme, acl.id.id


def optional(servers):
    bob = started(servers, "bob")
    carol = started(servers, "carol/desk.test")
    root = started(servers, "root")
    nobody = started(servers)
    bob.create("/kazoo", b"mine", acl=[make_acl("sasl", f"bob@{REALM}", all=True)])
    bob.create("/kazoo/auth", b"", acl=CREATOR_ALL_ACL)
    check(owner(bob, "/kazoo/auth") == ("sasl", f"bob@{REALM}"), f"bob is {owner(bob, '/kazoo/auth')}")
    for other in (carol, nobody):
        other.sync("/kazoo")
        refused(lambda: other.get("/kazoo"), NoAuthError)
    root.sync("/kazoo")
    check(root.get("/kazoo")[0] == b"mine", "the superuser may read everything")
    fails(servers, "bob", service="other")
    fault()
    check(bob.retry(bob.get, "/kazoo")[0] == b"mine", "bob has authenticated again")
    refused(lambda: carol.retry(carol.get, "/kazoo"), NoAuthError)
    bob.retry(bob.delete, "/kazoo", recursive=True)
    for one in (bob, carol, root, nobody):
        one.stop()
    return "users, superuser, strangers, another service, a new connection"


def required(servers):
    carol = started(servers, "carol/desk.test")
    carol.create("/kazoo", b"mine", acl=CREATOR_ALL_ACL)
    check(owner(carol, "/kazoo") == ("sasl", "carol"), f"carol is {owner(carol, '/kazoo')}")
    bob = started(servers, "bob")
    bob.sync("/kazoo")
    refused(lambda: bob.get("/kazoo"), NoAuthError)
    bob.stop()
    nobody = started(servers)
    first = refused(lambda: nobody.get("/kazoo"), SessionClosedRequireSaslError)
    nobody.stop()
    fault()
    check(carol.retry(carol.get, "/kazoo")[0] == b"mine", "carol has authenticated again")
    carol.retry(carol.delete, "/kazoo")
    carol.stop()
    return f"short names, nobody: {first}"


print("ok: " + {"kerberos": optional, "kerberos-required": required}[sys.argv[1]](sys.argv[2]), flush=True)
