"""ClickHouse with a table of the engine ReplicatedMergeTree: two servers, whose replicas agree on their parts over ZooKeeper.

Three writers insert one row after another, each at either server in turn, while the leader is killed three times and
stopped once for 15 s. An insert that fails is sent again: a block that the table has already is not inserted twice. At
the end both servers must have each acknowledged row.

Figures: acknowledged inserts, lost rows, rows that a server shows twice, inserts that failed first, new sessions of the
two servers, and the longest time without an acknowledged insert, during the kills and in the pause. A row may be shown
twice for five minutes: if the connection to ZooKeeper breaks in an insert, the server keeps the part for so long, before
it finds out that the insert was sent again elsewhere.
"""

import os
import threading
import time
import urllib.error
import urllib.request

from support import FOLDER, SERVERS, Process, Thread, check, fault, free_ports, main, note, pause, resume, wait_for

KILLS = 3
PAUSE_SECONDS = 15
WRITERS = 3
TABLE = "CREATE TABLE t (key UInt64) ENGINE = ReplicatedMergeTree('/clickhouse/t', '{replica}') ORDER BY key PARTITION BY tuple()"

CONFIG = """<?xml version="1.0"?>
<yandex>
<logger><level>information</level><console>1</console></logger>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{interserver}</interserver_http_port>
<interserver_http_host>127.0.0.1</interserver_http_host><listen_host>127.0.0.1</listen_host>
<max_connections>100</max_connections><mark_cache_size>5368709</mark_cache_size>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
<users_config>{folder}/users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<zookeeper>{nodes}<session_timeout_ms>30000</session_timeout_ms></zookeeper>
<macros><replica>{name}</replica></macros>
</yandex>
"""

USERS = """<?xml version="1.0"?>
<yandex>
<profiles><default></default></profiles>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default></default></quotas>
</yandex>
"""


class Server:
    """A server of ClickHouse."""

    def __init__(self, name):
        self.http, tcp, interserver = free_ports(3)
        folder = FOLDER / name
        (folder / "data").mkdir(parents=True)
        (folder / "tmp").mkdir()
        addresses = [address.split(":") for address in SERVERS.split(",")]
        nodes = "".join(f"<node><host>{host}</host><port>{port}</port></node>" for host, port in addresses)
        config = folder / "config.xml"
        ports = {"http": self.http, "tcp": tcp, "interserver": interserver}
        config.write_text(CONFIG.format(folder=folder, name=name, nodes=nodes, **ports))
        (folder / "users.xml").write_text(USERS)
        root = os.environ["APP_CLICKHOUSE"]
        libraries = ":".join(f"{root}/{path}/x86_64-linux-gnu" for path in ("usr/lib", "lib"))
        command = [f"{root}/usr/sbin/clickhouse-server", f"--config-file={config}"]
        self.process = Process(name, command, env={"LD_LIBRARY_PATH": libraries})

    def query(self, text):
        """Raises OSError if the statement fails; its message has the server's reason."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/", data=text.encode())
        try:
            with urllib.request.urlopen(request, timeout=40) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as why:
            raise OSError(why.read().decode(errors="replace")[:300]) from None


class Writer:
    """Inserts ascending keys."""

    def __init__(self, number, servers):
        self.servers = servers
        self.next = number * 1_000_000
        self.first = self.next
        self.failed = 0
        self.times = [time.monotonic()]
        self.thread = Thread(self.step)

    def step(self):
        server = self.servers[self.next % len(self.servers)]
        try:
            server.query(f"INSERT INTO t (key) VALUES ({self.next})")
        except OSError as why:
            self.failed += 1
            note(f"insert of {self.next}: {why}")
            self.thread.ends.wait(0.2)
            return
        self.times.append(time.monotonic())
        self.next += 1

    def acknowledged(self):
        return self.next - self.first

    def longest_gap(self, start, end):
        times = [start, *(at for at in self.times if start <= at <= end), end]
        return max(later - earlier for earlier, later in zip(times, times[1:]))


def run():
    servers = [Server("one"), Server("two")]
    for server in servers:
        wait_for("ClickHouse listens", lambda server=server: server.query("SELECT 1"), 60)
        wait_for("there is a table", lambda server=server: server.query(TABLE) or True, 60)
    writers = [Writer(number, servers) for number in range(1, WRITERS + 1)]

    def go_on():
        for writer in writers:
            count = writer.acknowledged()
            wait_for("a writer goes on", lambda: writer.acknowledged() > count + 5, 120)

    go_on()
    began = time.monotonic()
    for _ in range(KILLS):
        fault()
        go_on()
    killed = time.monotonic()
    pause()
    threading.Event().wait(PAUSE_SECONDS)
    resume()
    go_on()
    ended = time.monotonic()
    for writer in writers:
        # The last statement may wait for its answer; what was sent is either acknowledged then or unknown.
        writer.thread.finish(90)
    expected = {key for writer in writers for key in range(writer.first, writer.next)}
    unknown = {writer.next for writer in writers}
    lost = doubled = 0
    for server in servers:
        server.query("SYSTEM SYNC REPLICA t")
        rows = [int(line) for line in server.query("SELECT key FROM t").split()]
        lost = max(lost, len(expected - set(rows)))
        doubled = max(doubled, len(rows) - len(set(rows)))
        check(set(rows) <= expected | unknown, "every row was inserted by a writer")
    figures = {
        "acknowledged": len(expected),
        "lost": lost,
        "doubled": doubled,
        "failed_first": sum(writer.failed for writer in writers),
        "new_sessions": sum(server.process.count("ZooKeeper session has expired") for server in servers),
        "kill_gap_s": f"{max(writer.longest_gap(began, killed) for writer in writers):.1f}",
        "pause_gap_s": f"{max(writer.longest_gap(killed, ended) for writer in writers):.1f}",
    }
    note(figures)
    check(lost == 0, f"each acknowledged row is there: {figures}")
    for server in servers:
        server.process.end()
    return figures


main(run)
