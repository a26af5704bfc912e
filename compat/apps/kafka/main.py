"""Kafka 3.9 with ZooKeeper: three brokers, a producer and a consumer, all unmodified programs of Kafka.

Kafka's VerifiableProducer writes numbers to a topic with three replicas and reports each acknowledged one; its
VerifiableConsumer reads them as a member of a group. Meanwhile the leader of the servers is killed three times, with
a new topic created after each kill; the broker that is the controller is killed once, together with the leader; and
the leader is stopped for 15 s. Every acknowledged record has to be consumed exactly once by offset.

Figures: acknowledged records, lost ones, elections of the controller that no kill of a broker explains, expired
sessions of brokers, their reconnects, and the longest time without an acknowledged record after a kill and in the
pause.
"""

import json
import os
import sys
import time

from kazoo.client import KazooClient
from support import FOLDER, SERVERS, Process, check, fault, free_ports, main, pause, resume, wait_for

LIB = os.environ["APP_LIB"]
BROKERS = 3
ROUNDS = 3
PAUSE_SECONDS = 15
RECORDS_PER_S = 200
TOPIC = "rows"

JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class Broker:
    def __init__(self, number, port):
        self.number = number
        settings = FOLDER / f"broker-{number}.properties"
        settings.write_text(
            "\n".join(
                [
                    f"broker.id={number}",
                    f"listeners=PLAINTEXT://127.0.0.1:{port}",
                    f"log.dirs={FOLDER}/broker-{number}",
                    f"zookeeper.connect={SERVERS}/kafka",
                    "auto.create.topics.enable=false",
                    "offsets.topic.replication.factor=3",
                    "offsets.topic.num.partitions=3",
                    "min.insync.replicas=2",
                    "group.initial.rebalance.delay.ms=0",
                ]
            )
        )
        self.process = Process(f"broker-{number}", java("kafka.Kafka", settings, heap="320m"))


class Events:
    """The lines in JSON that one of Kafka's verifiable programs has printed."""

    def __init__(self, process):
        self.process = process
        self.offset = 0

    def read(self):
        """New lines."""
        with open(self.process.log, errors="replace") as log:
            log.seek(self.offset)
            for line in iter(log.readline, ""):
                if not line.endswith("\n"):
                    break
                self.offset = log.tell()
                if line.startswith("{"):
                    yield json.loads(line)


class Work:
    """What was acknowledged and consumed so far."""

    def __init__(self, producer, consumer):
        self.producer = Events(producer)
        self.consumer = Events(consumer)
        self.acknowledged = {}
        self.consumed = {}
        self.failed = 0
        self.last = None
        self.gap = 0.0

    def advance(self):
        for event in self.producer.read():
            if event["name"] == "producer_send_success":
                self.acknowledged[int(event["value"])] = (event["partition"], event["offset"])
                at = event["timestamp"] / 1000
                self.gap = max(self.gap, at - (self.last or at))
                self.last = at
            elif event["name"] == "producer_send_error":
                self.failed += 1
        for event in self.consumer.read():
            if event["name"] == "record_data":
                self.consumed[(event["partition"], event["offset"])] = int(event["value"])
        return self

    def goes_on(self):
        """Waits until records are acknowledged and consumed."""
        acknowledged, consumed = len(self.advance().acknowledged), len(self.consumed)
        more = RECORDS_PER_S
        wait_for("records are acknowledged", lambda: len(self.advance().acknowledged) > acknowledged + more, 60)
        wait_for("records are consumed", lambda: len(self.advance().consumed) > consumed + more, 60)

    def longest_gap(self):
        """The longest time between two acknowledged records since the last call."""
        gap, self.gap = self.advance().gap, 0.0
        return gap


def java(main_class, *arguments, heap="96m"):
    options = [f"-Xmx{heap}", f"-Dlog4j.configuration=file:{FOLDER}/log4j.properties", "-cp", f"{LIB}/*"]
    return JAVA + options + [main_class, *arguments]


def run():
    (FOLDER / "log4j.properties").write_text(
        "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
    )
    (FOLDER / "producer.properties").write_text("enable.idempotence=true\nretries=2147483647\ndelivery.timeout.ms=120000\n")
    keeper = KazooClient(SERVERS, timeout=20)
    keeper.start(30)
    ports = free_ports(BROKERS)
    brokers = [Broker(number, port) for number, port in enumerate(ports, 1)]
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)

    def registered():
        return len(keeper.retry(keeper.get_children, "/kafka/brokers/ids"))

    def controller():
        return json.loads(keeper.retry(keeper.get, "/kafka/controller")[0])["brokerid"]

    def controller_epoch():
        return int(keeper.retry(keeper.get, "/kafka/controller_epoch")[0])

    def in_sync(topic):
        states = f"/kafka/brokers/topics/{topic}/partitions"
        partitions = keeper.retry(keeper.get_children, states)
        isr = [json.loads(keeper.retry(keeper.get, f"{states}/{p}/state")[0])["isr"] for p in partitions]
        return len(isr) > 0 and all(len(replicas) == BROKERS for replicas in isr)

    def create(topic, partitions):
        process = Process(
            f"create-{topic}",
            java(
                "org.apache.kafka.tools.TopicCommand",
                *["--bootstrap-server", addresses, "--create", "--topic", topic],
                *["--partitions", str(partitions), "--replication-factor", str(BROKERS)],
            ),
        )
        check(process.child.wait(90) == 0, f"the topic {topic} is created")
        until(f"the topic {topic} has all replicas", lambda: in_sync(topic))

    def until(what, condition, limit=90):
        wait_for(what, ignoring_missing(condition), limit)

    until("all brokers are registered", lambda: registered() == BROKERS)
    until("there is a controller", controller)
    create(TOPIC, 6)
    producer = Process(
        "producer",
        java(
            "org.apache.kafka.tools.VerifiableProducer",
            *["--bootstrap-server", addresses, "--topic", TOPIC, "--throughput", str(RECORDS_PER_S), "--acks", "-1"],
            *["--producer.config", str(FOLDER / "producer.properties")],
        ),
    )
    consumer = Process(
        "consumer",
        java(
            "org.apache.kafka.tools.VerifiableConsumer",
            *["--bootstrap-server", addresses, "--topic", TOPIC, "--group-id", "readers", "--verbose"],
            *["--reset-policy", "earliest"],
        ),
    )
    work = Work(producer, consumer)
    wait_for("the first records are acknowledged", lambda: work.advance().acknowledged, 60)
    work.goes_on()

    work.longest_gap()
    epoch = controller_epoch()
    for round in range(ROUNDS):
        fault()
        create(f"after-kill-{round}", 2)
        work.goes_on()
        until("all brokers are registered after a kill", lambda: registered() == BROKERS)
    kill_gap = work.longest_gap()
    needless = controller_epoch() - epoch

    # The controller, together with the leader of the servers. The other brokers notice when its session expires.
    victim = brokers[controller() - 1]
    victim.process.kill()
    fault()
    until("another broker is the controller", lambda: controller() != victim.number)
    victim.process.start()
    until("the killed broker is registered again", lambda: registered() == BROKERS)
    until("all replicas are in sync again", lambda: in_sync(TOPIC))
    work.goes_on()
    work.longest_gap()

    epoch = controller_epoch()
    pause()
    time.sleep(PAUSE_SECONDS)
    resume()
    create("after-pause", 2)
    work.goes_on()
    pause_gap = work.longest_gap()
    needless += controller_epoch() - epoch

    producer.end()
    work.advance()
    missing = lambda: [place for place in work.advance().acknowledged.values() if place not in work.consumed]
    wait_for("all acknowledged records are consumed", lambda: not missing(), 60)
    wrong = [n for n, place in work.acknowledged.items() if work.consumed[place] != n]
    values = list(work.consumed.values())
    figures = {
        "acknowledged": len(work.acknowledged),
        "lost": len(wrong),
        "twice": len(values) - len(set(values)),
        "failed": work.failed,
        "needless_controllers": needless,
        "expired": sum(b.process.count(r"Session expired") for b in brokers),
        # Each start of a broker makes a session; the killed broker was started twice.
        "reconnects": sum(b.process.count("Session establishment complete") for b in brokers) - BROKERS - 1,
        "kill_gap_s": f"{kill_gap:.1f}",
        "pause_gap_s": f"{pause_gap:.1f}",
    }
    print(figures, file=sys.stderr, flush=True)
    check(not wrong and not work.failed, f"every acknowledged record is consumed: {figures}")
    consumer.end()
    for broker in brokers:
        broker.process.kill()
    keeper.stop()
    return figures


def ignoring_missing(condition):
    """A node that does not exist yet, or a lost connection, is false."""
    from kazoo.exceptions import KazooException

    def wrapped():
        try:
            return condition()
        except KazooException:
            return None

    return wrapped


main(run)
