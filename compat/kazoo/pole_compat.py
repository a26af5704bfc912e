"""A pytest plugin that runs kazoo's own tests against a server of our choice.

In: COMPAT_RESULTS, a file for one line of JSON per test; COMPAT_SKIPS, the tests that are left out and why;
COMPAT_SERVER_LOG, a file for what the servers say; COMPAT_SERVER, a JSON list: the command that starts a server, to which
the path of its zoo.cfg is added. Without COMPAT_SERVER the harness starts Apache ZooKeeper, as it does by itself.
Why a plugin: kazoo's files stay as they were published, so a difference is a difference of the servers.
How: the harness starts a server in one place, by `subprocess.Popen`. Only that name is replaced, in its module alone.
"""

import fnmatch
import json
import os
import shutil
import subprocess

import pytest
from kazoo.testing import common


class Servers:
    """Stands where kazoo's harness looks for the module `subprocess`."""

    def __init__(self, command, log_path):
        self.command = command
        self.log_path = log_path

    def Popen(self, args):
        config = args[-1]
        if self.command is not None:
            hand_over_properties(args, config)
            args = self.command + [config]
        elif shutil.which("setpriv"):
            # The kernel ends the server when we end, however we end. The other command brings its own such words.
            args = ["setpriv", "--pdeathsig", "KILL", "--"] + args
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def hand_over_properties(args, config):
    """Writes what the harness says by Java properties as keys of zoo.cfg, which is where Apache would accept them too.

    The harness writes the file anew at each start, so the keys do not pile up.
    """
    with open(config, "a") as file:
        for arg in args:
            name, _, value = arg.removeprefix("-D").removeprefix("zookeeper.").partition("=")
            if arg.startswith("-D") and name in PROPERTIES:
                file.write(f"{name}={value}\n")


# The others concern the virtual machine and its log.
PROPERTIES = ("readonlymode.enabled", "DigestAuthenticationProvider.superDigest")


def read_skips(path):
    """Pairs of a pattern and a reason, one to a line, divided by the first colon and space."""
    with open(path) as file:
        lines = [line.strip() for line in file]
    return [tuple(line.split(": ", 1)) for line in lines if line and not line.startswith("#")]


class Recorder:
    """One line for each test, written when it has ended: a run that is cut off keeps what it has."""

    def __init__(self, path):
        self.path = path
        self.parts = {}

    def pytest_runtest_logreport(self, report):
        part = self.parts.setdefault(report.nodeid, {"test": report.nodeid, "outcome": "passed", "seconds": 0.0, "why": ""})
        part["seconds"] = round(part["seconds"] + report.duration, 3)
        if report.outcome == "failed" or (report.outcome == "skipped" and part["outcome"] == "passed"):
            part["outcome"] = report.outcome
            part["why"] = reason_of(report)
        if report.when == "teardown":
            with open(self.path, "a") as file:
                file.write(json.dumps(self.parts.pop(report.nodeid)) + "\n")


def reason_of(report):
    """The last line of a failure, or the reason of a skip: enough for a table, the log has the rest."""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).strip().split("\n")[0][:200]


def pytest_configure(config):
    command = os.environ.get("COMPAT_SERVER")
    common.subprocess = Servers(json.loads(command) if command else None, os.environ["COMPAT_SERVER_LOG"])
    config.pluginmanager.register(Recorder(os.environ["COMPAT_RESULTS"]))


def pytest_collection_modifyitems(items):
    skips = read_skips(os.environ["COMPAT_SKIPS"])
    for item in items:
        for pattern, reason in skips:
            if fnmatch.fnmatchcase(item.nodeid, pattern):
                item.add_marker(pytest.mark.skip(reason=reason))
