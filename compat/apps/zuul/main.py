"""Zuul: its own tests of everything that it keeps in ZooKeeper, over TLS.

Locks, elections, queues, caches, sharded values, components: the 113 tests of `test_zk.py`.

Figures: the tests by outcome, the kills of the leader while they run again, the tests that failed only then, and
those that failed in two more such runs too.
"""

import os

import suite
from support import main


def run():
    env = {
        **os.environ,
        "ZUUL_ZK_HOST": f"127.0.0.1:{os.environ['APP_TLS_PORT']}",
        "ZUUL_ZK_CA": os.environ["APP_TLS_AUTHORITY"],
        # Zuul always presents a certificate.
        "ZUUL_ZK_CERT": os.environ["APP_TLS_KEY"],
        "ZUUL_ZK_KEY": os.environ["APP_TLS_KEY"],
    }
    env.pop("PYTHONPATH")
    return suite.run(os.environ["APP_SOURCE"], ["tests/unit/test_zk.py"], env, tests_per_kill=15)


main(run)
