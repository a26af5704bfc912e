"""ClickHouse's engine as a library (chDB), with a table of the engine KeeperMap, which keeps its rows in ZooKeeper.

Three processes insert, update and delete rows of one table, each with keys of its own, while the leader is killed
three times and stopped once for 15 s. A statement that fails is sent again: all of them can be repeated. At the end,
two other processes read the table, and both must find the rows that the acknowledged statements left.

Figures: acknowledged statements, rows, rows that are lost or wrong, statements that failed first, and the longest
time without an acknowledged statement after a kill and in the pause.
"""

import json
import sys
import time

from support import FOLDER, SERVERS, Process, check, fault, main, note, pause, resume, wait_for

KILLS = 3
PAUSE_SECONDS = 15
WRITERS = 3

WORKER = """
import json, sys, time
import chdb
config, name, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = chdb.connect(f"{name}-data?config-file={config}")
TABLE = "CREATE TABLE IF NOT EXISTS d.t (key UInt64, value String) ENGINE = KeeperMap('/t') PRIMARY KEY key"
def query(text):
    return connection.query(text, "JSONEachRow")
def repeat(text):
    while True:
        try:
            query(text)
            return
        except Exception as why:
            print(json.dumps({"failed": str(why)[:300], "at": time.time()}), flush=True)
            time.sleep(0.05)
query("CREATE DATABASE IF NOT EXISTS d ENGINE = Atomic")
repeat(TABLE)
if number < 0:
    print(json.dumps({"rows": [json.loads(line) for line in str(query("SELECT * FROM d.t")).splitlines()]}), flush=True)
    sys.exit(0)
n = number * 1000000
while True:
    n += 1
    repeat(f"INSERT INTO d.t VALUES ({n}, 'new')")
    print(json.dumps({"key": n, "value": "new", "at": time.time()}), flush=True)
    if n % 3 == 0:
        repeat(f"ALTER TABLE d.t UPDATE value = 'changed' WHERE key = {n}")
        print(json.dumps({"key": n, "value": "changed", "at": time.time()}), flush=True)
    if n % 3 == 1:
        repeat(f"ALTER TABLE d.t DELETE WHERE key = {n}")
        print(json.dumps({"key": n, "value": None, "at": time.time()}), flush=True)
"""


def run():
    nodes = [address.split(":") for address in SERVERS.split(",")]
    config = FOLDER / "config.xml"
    config.write_text(
        "<clickhouse><zookeeper>"
        + "".join(f"<node><host>{host}</host><port>{port}</port></node>" for host, port in nodes)
        + "</zookeeper><keeper_map_path_prefix>/keeper_map</keeper_map_path_prefix></clickhouse>"
    )
    script = FOLDER / "worker.py"
    script.write_text(WORKER)

    def start(name, number):
        return Process(name, [sys.executable, script, config, FOLDER / name, number])

    def events(process):
        lines = process.text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def done(process):
        return [event for event in events(process) if "key" in event]

    def gap(start, end):
        """The longest time without an acknowledged statement of some writer."""
        longest = 0.0
        for writer in writers:
            times = [start, *(e["at"] for e in done(writer) if start <= e["at"] <= end), end]
            longest = max(longest, *(b - a for a, b in zip(times, times[1:])))
        return longest

    def go_on():
        for writer in writers:
            count = len(done(writer))
            wait_for(f"{writer.name} goes on", lambda: len(done(writer)) > count + 10, 90)

    writers = [start(f"writer-{number}", number) for number in range(1, WRITERS + 1)]
    go_on()
    began = time.time()
    for _ in range(KILLS):
        fault()
        go_on()
    killed = time.time()
    pause()
    time.sleep(PAUSE_SECONDS)
    resume()
    go_on()
    kill_gap, pause_gap = gap(began, killed), gap(killed, time.time())
    for writer in writers:
        check(writer.runs(), f"{writer.name} runs")
        writer.kill()

    expected, unknown = {}, set()
    for writer in writers:
        for event in done(writer):
            expected[event["key"]] = event["value"]
        # The statement that a writer had sent when it was killed may have been carried out.
        last = done(writer)[-1]["key"]
        unknown |= {last, last + 1}
    wrong = 0
    for number in range(2):
        reader = start(f"reader-{number}", -1)
        check(reader.child.wait(60) == 0, "a reader ends")
        rows = {int(row["key"]): row["value"] for row in events(reader)[-1]["rows"]}
        keys = (set(expected) | set(rows)) - unknown
        wrong = max(wrong, sum(expected.get(key) != rows.get(key) for key in keys))
    figures = {
        "acknowledged": sum(len(done(writer)) for writer in writers),
        "rows": len(rows),
        "wrong": wrong,
        "repeated": sum("failed" in event for writer in writers for event in events(writer)),
        "kill_gap_s": f"{kill_gap:.1f}",
        "pause_gap_s": f"{pause_gap:.1f}",
    }
    note(figures)
    check(not wrong, f"the table has the acknowledged rows: {figures}")
    return figures


main(run)
