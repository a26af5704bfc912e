"""A pytest plugin that runs kazoo's own tests against a server of our choice.

Environment variables:

- COMPAT_RESULTS: the file for the results, one line of JSON per test.
- COMPAT_SKIPS: the file with the tests to skip, and the reasons.
- COMPAT_SERVER_LOG: the file for the output of the servers.
- COMPAT_SERVER: the command that starts a server, as a JSON list. The path of its zoo.cfg is appended. Without this variable,
  the harness of kazoo starts Apache ZooKeeper, as usual.

With a plugin, kazoo's files stay as published, so a different result is caused by the server. The harness starts servers in
one place, by `subprocess.Popen`. Only that name is replaced, and only in that module.
"""

import fnmatch
import json
import os
import shutil
import subprocess

import pytest
from kazoo.testing import common


class Servers:
    """Replaces the module `subprocess` in kazoo's harness."""

    def __init__(self, command, log_path):
        self.command = command
        self.log_path = log_path

    def Popen(self, args):
        config = args[-1]
        if self.command is not None:
            hand_over_properties(args, config)
            args = self.command + [config]
        elif shutil.which("setpriv"):
            # The kernel kills the server when this process ends for any reason. The command in COMPAT_SERVER already does this.
            args = ["setpriv", "--pdeathsig", "KILL", "--"] + args
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def hand_over_properties(args, config):
    """Writes the Java properties that the harness sets into zoo.cfg, where Apache would accept them too.

    The harness rewrites the file at each start, so the keys do not accumulate.
    """
    with open(config, "a") as file:
        for arg in args:
            name, _, value = arg.removeprefix("-D").removeprefix("zookeeper.").partition("=")
            if arg.startswith("-D") and name in PROPERTIES:
                file.write(f"{name}={value}\n")
            # The harness always names a JAAS file. It is empty unless a test uses SASL.
            if name == "java.security.auth.login.config" and os.path.getsize(value) > 0:
                file.write(f"pole.sasl.jaasFile={value}\n")


# The other properties configure the JVM and its log.
PROPERTIES = ("readonlymode.enabled", "DigestAuthenticationProvider.superDigest")


def read_skips(path):
    """Reads pairs of a pattern and a reason, one per line, separated by the first colon and space."""
    with open(path) as file:
        lines = [line.strip() for line in file]
    return [tuple(line.split(": ", 1)) for line in lines if line and not line.startswith("#")]


class Recorder:
    """Writes one line for each test when it has ended, so that an interrupted run keeps its results."""

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
    """The first line of a failure, or the reason of a skip, for a table. The log has the details."""
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
