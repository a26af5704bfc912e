"""Spark standalone with recoveryMode=ZOOKEEPER: two masters, one worker and an application.

The application runs jobs one after another and checks each result. Meanwhile the leader of the servers is killed
three times; then the master that is active is killed once, together with the leader, and the other one has to take
over, with the worker and the application. At the end a second application has to be accepted.

A Spark master exits when it loses its leadership, which happens as soon as its connection is suspended. It is then
started again, as a supervisor would.

Figures: jobs, wrong results, executors lost, masters that exited, and the longest time between two jobs.
"""

import json
import sys
import time
from pathlib import Path

import pyspark
from support import FOLDER, SERVERS, Process, Thread, check, fault, free_ports, get, main, note, wait_for

KILLS = 3
HOME = Path(pyspark.__file__).parent
# Curator's session timeout in Spark is 60 s, of which the servers grant 40 s.
TAKE_OVER_LIMIT_S = 180
ENV = {
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-Dspark.deploy.recoveryMode=ZOOKEEPER "
    f"-Dspark.deploy.zookeeper.url={SERVERS} -Dspark.deploy.zookeeper.dir=/spark -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "SPARK_WORKER_DIR": str(FOLDER / "work"),
    "PYSPARK_PYTHON": sys.executable,
}

APPLICATION = """
import sys, time
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster(sys.argv[1]).setAppName(sys.argv[2])
conf = conf.set("spark.executor.memory", "512m").set("spark.cores.max", "1").set("spark.ui.enabled", "false")
conf = conf.set("spark.ui.showConsoleProgress", "false")
context = SparkContext(conf=conf)
for n in range(int(sys.argv[3])):
    found = context.parallelize(range(n, n + 10000), 2).map(lambda x: x * x).sum()
    print("job", n, found == sum(x * x for x in range(n, n + 10000)), time.time(), flush=True)
    time.sleep(0.2)
context.stop()
print("ended", flush=True)
"""


class Master:
    def __init__(self, name):
        self.name = name
        self.port, self.web = free_ports(2)
        self.exits = 0
        command = ["bash", HOME / "bin/spark-class", "org.apache.spark.deploy.master.Master"]
        command += ["--host", "127.0.0.1", "--port", self.port, "--webui-port", self.web]
        self.process = Process(name, command, env=ENV)

    def state(self):
        try:
            return json.loads(get(f"http://127.0.0.1:{self.web}/json/"))
        except (OSError, ValueError):
            return {"status": "DOWN"}

    def supervise(self):
        if not self.process.runs():
            note(f"{self.name} exited")
            self.exits += 1
            self.process.start()


def run():
    masters = [Master("master-a"), Master("master-b")]
    url = "spark://" + ",".join(f"127.0.0.1:{master.port}" for master in masters)

    def active(applications=0):
        """The active master, with the worker and at least this number of applications."""
        for master in masters:
            state = master.state()
            if state["status"] == "ALIVE":
                alive = [worker for worker in state["workers"] if worker["state"] == "ALIVE"]
                running = [app for app in state["activeapps"] if app["state"] == "RUNNING"]
                return master if len(alive) == 1 and len(running) >= applications else None
        return None

    def supervise():
        for master in masters:
            master.supervise()
        time.sleep(0.2)

    wait_for("a master is active", lambda: any(m.state()["status"] == "ALIVE" for m in masters), 90)
    supervisor = Thread(supervise)
    command = ["bash", HOME / "bin/spark-class", "org.apache.spark.deploy.worker.Worker"]
    command += ["--host", "127.0.0.1", "--cores", "2", "--memory", "1g", "--webui-port", free_ports(1)[0], url]
    worker = Process("worker", command, env=ENV)
    wait_for("the worker is registered", active, 90)
    script = FOLDER / "application.py"
    script.write_text(APPLICATION)
    application = Process("application", [sys.executable, script, url, "numbers", "100000"], env=ENV)
    jobs = lambda: [line.split() for line in application.text().splitlines() if line.startswith("job ")]

    def goes_on():
        check(application.runs(), "the application runs")
        done = len(jobs())
        wait_for("jobs end", lambda: len(jobs()) > done + 3, 240)

    goes_on()
    for _ in range(KILLS):
        fault()
        # A master that lost its connection is no master any more before its successor is one.
        wait_for("a master is active with the application", lambda: active(1), TAKE_OVER_LIMIT_S)
        goes_on()
    exits = sum(master.exits for master in masters)

    first = wait_for("a master is active with the application", lambda: active(1), TAKE_OVER_LIMIT_S)
    started = time.monotonic()
    first.process.child.kill()
    fault()
    other = next(master for master in masters if master is not first)
    wait_for("the other master is active with the application", lambda: active(1) is other, TAKE_OVER_LIMIT_S)
    take_over = time.monotonic() - started
    goes_on()

    second = Process("second", [sys.executable, script, url, "second", "3"], env=ENV)
    check(second.child.wait(300) == 0 and "ended" in second.text(), "a second application ends")
    goes_on()
    supervisor.finish()
    done = jobs()
    at = [float(job[3]) for job in done]
    figures = {
        "jobs": len(done),
        "wrong": sum(job[2] != "True" for job in done),
        "killed_executors": application.count(r"Lost executor"),
        "exited_masters": exits,
        "take_over_s": f"{take_over:.0f}",
        "job_gap_s": f"{max(b - a for a, b in zip(at, at[1:])):.1f}",
    }
    note(figures)
    check(not figures["wrong"], f"all results are right: {figures}")
    for process in [application, worker, *(master.process for master in masters)]:
        process.kill()
    return figures


main(run)
