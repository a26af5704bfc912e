"""kazoo with SASL DIGEST-MD5.

Arguments: `sasl` on servers where authentication is optional, or `sasl-required`, and the connect string. Prints `@fault` to
have the leader killed and restarted, and `ok: ...` on success. The users are in crates/harness/src/compat/sasl.rs.
"""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import InvalidACLError, NoAuthError, SessionClosedRequireSaslError
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, make_acl

SECRET = 'secret "of" bob'


def client(servers, user=None, password=None, auth_data=None):
    options = user and {"mechanism": "DIGEST-MD5", "username": user, "password": password}
    retry = KazooRetry(max_tries=300, delay=0.1, backoff=1, max_jitter=0)
    return KazooClient(
        servers, timeout=20.0, sasl_options=options, auth_data=auth_data, connection_retry=retry, command_retry=retry
    )


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


def fails(servers, user, password):
    """Waits until a client with wrong credentials is told so. kazoo's `start` may return before or after that."""
    new = client(servers, user, password)
    refused = threading.Event()
    new.add_listener(lambda _: refused.set() if new.client_state == KeeperState.AUTH_FAILED else None)
    new.start_async()
    check(refused.wait(30), f"{user} is refused")
    new.stop()


def check(holds, what):
    if not holds:
        sys.exit(f"this does not hold: {what}")


def fault():
    print("@fault", flush=True)
    check(sys.stdin.readline().strip() == "done", "the fault was done")


def optional(servers):
    bob = started(servers, "bob", SECRET)
    alice = started(servers, "alice", "other")
    root = started(servers, "root", "super")
    nobody = started(servers)
    bob.create("/kazoo", b"mine", acl=[make_acl("sasl", "bob", all=True)])
    bob.create("/kazoo/auth", b"", acl=CREATOR_ALL_ACL)
    ids = [(acl.id.scheme, acl.id.id) for acl in bob.get_acls("/kazoo/auth")[0]]
    check(ids == [("sasl", "bob")], f"`auth` stands for bob, not for {ids}")
    for other in (alice, nobody):
        other.sync("/kazoo")
        refused(lambda: other.get("/kazoo"), NoAuthError)
    root.sync("/kazoo")
    check(root.get("/kazoo")[0] == b"mine", "the superuser may read everything")
    for name in ("a@b@c", "a/b/c@d"):
        refused(lambda: bob.create("/kazoo/odd", acl=[make_acl("sasl", name, all=True)]), InvalidACLError)
    for user, password in (("bob", "guess"), ("eve", "guess")):
        fails(servers, user, password)
    fault()
    check(bob.retry(bob.get, "/kazoo")[0] == b"mine", "bob has authenticated again")
    refused(lambda: alice.retry(alice.get, "/kazoo"), NoAuthError)
    bob.retry(bob.delete, "/kazoo", recursive=True)
    for one in (bob, alice, root, nobody):
        one.stop()
    return "users, superuser, strangers, wrong passwords, a new connection"


def required(servers):
    bob = started(servers, "bob", SECRET)
    bob.create("/kazoo", b"open to everyone who has a name")
    nobody = started(servers)
    first = refused(lambda: nobody.get("/kazoo"), SessionClosedRequireSaslError)
    nobody.stop()
    digest = started(servers, None, None, [("digest", "u:p")])
    second = refused(lambda: digest.get("/kazoo"), SessionClosedRequireSaslError)
    digest.stop()
    # Not with a wrong password: kazoo's thread ends with the error of the server, which no caller sees. Java's client is asked.
    fault()
    check(bob.retry(bob.get, "/kazoo")[0].startswith(b"open"), "bob has authenticated again")
    bob.retry(bob.delete, "/kazoo")
    bob.stop()
    return f"nobody: {first}, digest: {second}"


print("ok: " + {"sasl": optional, "sasl-required": required}[sys.argv[1]](sys.argv[2]), flush=True)
