"""Flink with high availability in ZooKeeper: two job managers, one task manager and a job with checkpoints.

The job writes the numbers from 1 on to files, which a checkpoint completes. Flink keeps its leaders and the pointers
to checkpoints in ZooKeeper. The leader of the servers is killed three times; then the job manager that leads is
killed once, together with the leader of the servers; and the leader is stopped for 15 s. A job manager that exits is
started again. At the end each number has to be in the files exactly once.

Figures: numbers, lost and repeated ones, job managers that exited, leaderships that were revoked, restarts of the
job, and the longest time without a completed checkpoint.
"""

import os
import re
import time
from pathlib import Path

from support import FOLDER, SERVERS, Process, Thread, check, fault, free_ports, main, note, pause, resume, wait_for

KILLS = 3
PAUSE_SECONDS = 15
NUMBERS = 40000
NUMBERS_PER_S = 400
DEPS = Path(os.environ["APP_SOURCE"]) / "deps"
# Those that Flink's own configuration has for Java 17.
OPENS = [
    f"--add-{kind}={module}=ALL-UNNAMED"
    for kind, modules in {
        "exports": ["java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5"]
        + [f"jdk.compiler/com.sun.tools.javac.{name}" for name in ["api", "file", "parser", "tree", "util"]],
        "opens": ["lang", "net", "io", "nio", "time", "util", "util.concurrent", "util.concurrent.atomic"]
        + ["util.concurrent.locks", "lang.reflect", "text"],
    }.items()
    for module in (modules if kind == "exports" else [f"java.base/java.{m}" for m in modules] + ["java.base/sun.nio.ch"])
]

SETTINGS = f"""
high-availability.type: zookeeper
high-availability.zookeeper.quorum: {SERVERS}
high-availability.zookeeper.client.session-timeout: 20000
high-availability.storageDir: file://{FOLDER}/ha
state.checkpoints.dir: file://{FOLDER}/checkpoints
execution.checkpointing.interval: 1s
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000
restart-strategy.fixed-delay.delay: 1s
jobmanager.rpc.address: 127.0.0.1
jobmanager.bind-host: 127.0.0.1
pekko.startup-timeout: 60 s
rest.address: 127.0.0.1
execution.target: remote
rest.bind-address: 127.0.0.1
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: 2
taskmanager.cpu.cores: 2
taskmanager.memory.task.heap.size: 128m
taskmanager.memory.task.off-heap.size: 0
taskmanager.memory.network.min: 32m
taskmanager.memory.network.max: 32m
taskmanager.memory.managed.size: 32m
taskmanager.memory.framework.heap.size: 64m
taskmanager.memory.framework.off-heap.size: 32m
taskmanager.memory.jvm-metaspace.size: 128m
taskmanager.memory.jvm-overhead.min: 64m
taskmanager.memory.jvm-overhead.max: 64m
"""

JOB = f"""
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{NUMBERS_PER_S}',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{NUMBERS}');
CREATE TABLE files (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'file://{FOLDER}/files', 'format' = 'csv');
INSERT INTO files SELECT n FROM numbers;
"""


def java(main_class, *arguments):
    jars = sorted(map(str, (DEPS / "lib").glob("*.jar")))
    options = ["-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *OPENS]
    log = f"-Dlog4j2.configurationFile=file:{FOLDER}/log4j2.properties"
    return ["java", *options, log, "-cp", ":".join(jars), main_class, *arguments]


class JobManager:
    def __init__(self, name):
        self.name = name
        rest, rpc, blob = free_ports(3)
        conf = FOLDER / f"{name}-conf"
        configure(conf, f"rest.port: {rest}\nhigh-availability.jobmanager.port: {rpc}\nblob.server.port: {blob}\n")
        entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        command = java(entry, "--configDir", conf)
        self.process = Process(name, command, env={"FLINK_CONF_DIR": str(conf)})
        self.exits = 0

    def supervise(self):
        """Starts it again if it exited, as a supervisor would."""
        if not self.process.runs():
            note(f"{self.name} exited")
            self.exits += 1
            self.process.start()

    def leads(self):
        """Whether its dispatcher was granted leadership, and has not lost it since."""
        if not self.process.runs():
            return False
        words = re.findall(r"DefaultDispatcherRunner was (granted|revoked)", self.process.text())
        return words[-1:] == ["granted"]


def configure(conf, more):
    conf.mkdir()
    (conf / "config.yaml").write_text(SETTINGS + more)


def run():
    (FOLDER / "log4j2.properties").write_text(
        "rootLogger.level = INFO\nrootLogger.appenderRef.out.ref = out\nappender.out.name = out\n"
        "appender.out.type = CONSOLE\nappender.out.layout.type = PatternLayout\n"
        "appender.out.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c{1} - %m%n\n"
    )
    managers = [JobManager("manager-a"), JobManager("manager-b")]
    leading = lambda: next((manager for manager in managers if manager.leads()), None)

    def supervise():
        for manager in managers:
            manager.supervise()
        time.sleep(0.2)

    wait_for("a job manager leads", leading, 90)
    supervisor = Thread(supervise)
    conf = FOLDER / "task-conf"
    configure(conf, "")
    runner = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
    tasks = Process("tasks", java(runner, "--configDir", conf), env={"FLINK_CONF_DIR": str(conf)})
    script = FOLDER / "job.sql"
    script.write_text(JOB)
    job = Path(__file__).with_name("Job.java")
    submit = Process("submit", java(job, conf, script), env={"FLINK_CONF_DIR": str(conf)})
    check(submit.child.wait(240) == 0 and "Job ID" in submit.text(), "the job is submitted")
    managed = lambda pattern: sum(manager.process.count(pattern) for manager in managers)
    checkpoints = lambda: managed("Completed checkpoint")

    def goes_on():
        done = checkpoints()
        wait_for("checkpoints are completed", lambda: checkpoints() > done + 3, 180)

    goes_on()
    for _ in range(KILLS):
        fault()
        goes_on()
    victim = wait_for("a job manager leads", leading)
    exits = sum(manager.exits for manager in managers)
    # The supervisor starts it again.
    victim.process.child.kill()
    fault()
    wait_for("the killed job manager runs again", lambda: sum(manager.exits for manager in managers) > exits)
    goes_on()
    pause()
    time.sleep(PAUSE_SECONDS)
    resume()
    goes_on()
    wait_for("the job ends", lambda: managed(r"switched from state RUNNING to FINISHED"), 300)
    # The job manager completes the last files as it finishes the job.
    files = [path for path in (FOLDER / "files").rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    found = sorted(int(line) for path in files for line in path.read_text().split())
    supervisor.finish()
    times = sorted(completed(managers))
    figures = {
        "numbers": len(found),
        "lost": len(set(range(1, NUMBERS + 1)) - set(found)),
        "twice": len(found) - len(set(found)),
        # Beside the one that was killed.
        "exited_managers": sum(manager.exits for manager in managers) - 1,
        "revoked": managed(r"DefaultDispatcherRunner was revoked"),
        "restarts": managed(r"Job \S+ .*switched from state RESTARTING to RUNNING"),
        "checkpoints": len(times),
        "checkpoint_gap_s": f"{max(b - a for a, b in zip(times, times[1:])):.1f}",
    }
    note(figures)
    check(not figures["lost"] and not figures["twice"], f"each number is there once: {figures}")
    for process in [tasks, *(manager.process for manager in managers)]:
        process.kill()
    return figures


def completed(managers):
    """When checkpoints were completed, in seconds."""
    for manager in managers:
        for at, ms in re.findall(r"^(\S+ \S+),(\d+) .*Completed checkpoint", manager.process.text(), re.M):
            yield time.mktime(time.strptime(at, "%Y-%m-%d %H:%M:%S")) + int(ms) / 1000


main(run)
