"""What the programs of `cargo xtask compat --part apps` share.

The harness starts a program with the connect string of the servers in APP_SERVERS and an empty folder in APP_FOLDER.
The program prints `@fault`, `@fault N`, `@pause` or `@resume` to have the leader or server N killed and restarted, or
the leader stopped and continued, and reads a line when that is done. At the end it prints `ok: ` and its figures.

The program is the first process of a process namespace, so everything that it starts ends with it.
"""

import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

SERVERS = os.environ["APP_SERVERS"]
FOLDER = Path(os.environ["APP_FOLDER"])

# The harness shows the first line of the log that has this.
FAILURE = "this does not hold: "


def main(run):
    """Calls `run`, which returns the figures, in a child, and reaps orphans, as the first process must."""
    child = os.fork()
    if child == 0:
        figures = run()
        print("ok: " + " ".join(f"{name}={value}" for name, value in figures.items()), flush=True)
        sys.exit(0)
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def fault(server=None):
    """Kills the leader, or the server with this number, and restarts it when the others serve."""
    ask("@fault" if server is None else f"@fault {server}")


def pause():
    ask("@pause")


def resume():
    ask("@resume")


def ask(request):
    note(request)
    print(request, flush=True)
    answer = sys.stdin.readline().strip()
    check(answer == "done", f"the harness carries out {request}")


def note(text):
    """Writes a line with the time to the log."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def check(holds, what):
    if not holds:
        raise AssertionError(FAILURE + what)


def wait_for(what, condition, limit=60.0):
    """Waits until `condition` returns something true, and returns that. Errors of connections count as false."""
    deadline = time.monotonic() + limit
    while True:
        try:
            result = condition()
        except (OSError, ValueError) as why:
            result, what_now = None, f"{what} ({why})"
        else:
            what_now = what
        if result:
            return result
        check(time.monotonic() < deadline, f"within {limit:.0f} s, {what_now}")
        time.sleep(0.05)


def words(word, address):
    """The reply of a server to a four-letter word; empty if it does not reply."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=1) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    except OSError:
        return ""


def leader():
    """The number of the server that leads, from 1."""

    def leading():
        modes = [words("srvr", address) for address in SERVERS.split(",")]
        return next((number for number, said in enumerate(modes, 1) if "Mode: leader" in said), 0)

    return wait_for("a server leads", leading)


def free_ports(count):
    """Ports on loopback, below those of outgoing connections and of the harness."""
    held = []
    while len(held) < count:
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", random.randrange(14000, 23900)))
            held.append(listener)
        except OSError:
            listener.close()
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


def get(url, timeout=5):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


class Process:
    """A program with its output in a file of FOLDER. Can be started again."""

    def __init__(self, name, command, user=None, env=None):
        self.name = name
        self.command = [str(word) for word in command]
        if user and os.getuid() == 0:
            self.command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"] + self.command
        self.env = {**os.environ, **(env or {})}
        # The path of this module.
        self.env.pop("PYTHONPATH", None)
        self.log = FOLDER / f"{name}.log"
        self.child = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=FOLDER
            )

    @property
    def pid(self):
        return self.child.pid

    def runs(self):
        return self.child.poll() is None

    def kill(self):
        self.child.kill()
        self.child.wait()

    def end(self, limit=60):
        self.child.terminate()
        self.child.wait(limit)

    def text(self):
        return self.log.read_text(errors="replace")

    def count(self, pattern):
        return len(re.findall(pattern, self.text()))


class Thread(threading.Thread):
    """Calls `step` again and again until `finish`, which raises what `step` raised."""

    def __init__(self, step):
        super().__init__(daemon=True)
        self.step = step
        self.ends = threading.Event()
        self.why = None
        self.start()

    def run(self):
        try:
            while not self.ends.is_set():
                self.step()
        except BaseException as why:
            self.why = why

    def finish(self, limit=60):
        self.ends.set()
        self.join(limit)
        check(not self.is_alive(), f"the thread ends within {limit} s")
        if self.why:
            raise self.why
