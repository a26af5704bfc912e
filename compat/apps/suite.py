"""Runs an application's own tests twice: undisturbed, and while the leader is killed again and again.

The tests are clients of an observer, which never leads. A server that loses its leader keeps its clients on Pole, so
a kill must not make any test fail there; on Apache it closes their connections.
"""

import re
import subprocess
import sys

from support import FOLDER, check, fault, note

TEST_LIMIT_S = 180
# Further runs of tests that failed with kills. A test fails because of the kills if it fails in all of them.
RETRIES = 2


def run(source, tests, env, tests_per_kill):
    """The figures of tests (files and options of pytest) in the folder `source`."""
    calm = results(source, tests, env, "calm", lambda: None)
    failed = [test for test, outcome in calm.items() if outcome not in ("PASSED", "SKIPPED")]
    if failed:
        alone = results(source, failed, env, "alone", lambda: None)
        failed = [test for test in failed if alone.get(test) not in ("PASSED", "SKIPPED")]
    for test in failed:
        note(f"failed without a kill: {test}")
    kills = 0

    def kill(finished=[0]):
        nonlocal kills
        finished[0] += 1
        if finished[0] % tests_per_kill == 0:
            fault()
            kills += 1

    disturbed = results(source, tests, env, "kills", kill)
    broken = [test for test, outcome in disturbed.items() if outcome not in ("PASSED", "SKIPPED") and test not in failed]
    for test in broken:
        note(f"failed with kills: {test}")
    # Some tests fail now and then by themselves, for example if they end while a cache of theirs still reads.
    lasting = broken
    for number in range(RETRIES):
        if lasting:
            again = results(source, tests, env, f"again-{number}", kill)
            lasting = [test for test in lasting if again.get(test) not in ("PASSED", "SKIPPED")]
    for test in lasting:
        note(f"failed with kills again: {test}")
    count = lambda outcome: sum(other == outcome for other in calm.values())
    check(count("PASSED") > 0, "tests pass")
    check(len(calm) == len(disturbed), f"the same tests end: {len(calm)}, {len(disturbed)}")
    return {
        "passed": count("PASSED"),
        "failed": len(failed),
        "skipped": count("SKIPPED"),
        "kills": kills,
        "failed_with_kills": len(broken),
        "failed_again": len(lasting),
    }


def results(source, tests, env, name, after_test):
    """The outcome of each test. `after_test` is called when one has ended, while the next one runs."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no", "-W", "ignore"]
    # Zuul expects that nobody else handles its log.
    command += ["-p", "no:logging", "--timeout", str(TEST_LIMIT_S), *tests]
    ended = {}
    with open(FOLDER / f"{name}.log", "w") as log:
        child = subprocess.Popen(
            command, cwd=source, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )
        for line in child.stdout:
            log.write(line)
            found = re.match(r"(\S+::\S+) (PASSED|FAILED|ERROR|SKIPPED|XFAIL)", line)
            if found:
                ended[found[1]] = found[2] if ended.get(found[1]) in (None, "PASSED") else ended[found[1]]
                after_test()
        child.wait()
    return ended
