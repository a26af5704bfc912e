"""tooz: its own tests of coordinators, locks, groups and elections, on the ZooKeeper driver.

Figures: the tests by outcome, the kills of the leader while they run again, the tests that failed only then, and
those that failed in two more such runs too.
"""

import os

import suite
from support import SERVERS, main


def run():
    env = {**os.environ, "TOOZ_TEST_URL": f"zookeeper://{SERVERS.split(',')[-1]}"}
    env.pop("PYTHONPATH")
    tests = ["tooz/tests/test_coordination.py", "tooz/tests/test_partitioner.py"]
    return suite.run(os.environ["APP_SOURCE"], tests, env, tests_per_kill=10)


main(run)
