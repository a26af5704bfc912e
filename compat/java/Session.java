package pole.compat;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** One session of Apache's own client, with an ephemeral node, a recursive watch and a write every 10 ms. */
final class Session {
    private final ZooKeeper client;
    private final String path;
    private final AtomicInteger connected = new AtomicInteger();
    private final AtomicInteger disconnected = new AtomicInteger();
    private final AtomicInteger expired = new AtomicInteger();
    private final AtomicInteger events = new AtomicInteger();
    private final AtomicBoolean over = new AtomicBoolean();
    private long id;
    private int deathsOfOwnServer;
    private Future<Writes> writes;

    Session(String servers, String path) throws Exception {
        this.path = path;
        this.client = new ZooKeeper(servers, 20_000, this::count);
    }

    private void count(WatchedEvent event) {
        if (event.getState() == KeeperState.SyncConnected) {
            connected.incrementAndGet();
        } else if (event.getState() == KeeperState.Disconnected) {
            disconnected.incrementAndGet();
        } else if (event.getState() == KeeperState.Expired) {
            expired.incrementAndGet();
        }
    }

    void begin(Stage stage) throws Exception {
        Stage.until("there is a session", () -> connected.get() > 0);
        id = client.getSessionId();
        client.create(path, new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        client.create(path + "/mine", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        client.addWatch(path, event -> {
            if (event.getType() == EventType.NodeDataChanged) {
                events.incrementAndGet();
            }
        }, AddWatchMode.PERSISTENT_RECURSIVE);
        writes = stage.start(this::write);
    }

    /** Records whether the coming disconnect is expected. */
    void beforeDeathOf(String server) throws InterruptedException {
        Stage.until("there is a connection", () -> client.getState().isConnected());
        // The client exposes the address of its server only through toString().
        if (client.toString().contains(server + " ")) {
            deathsOfOwnServer++;
        }
    }

    private Writes write() throws Exception {
        int done = 0;
        int refused = 0;
        long longest = 0;
        long last = System.nanoTime();
        while (!over.get()) {
            try {
                client.setData(path, Integer.toString(done).getBytes(StandardCharsets.UTF_8), -1);
                done++;
                longest = Math.max(longest, System.nanoTime() - last);
                last = System.nanoTime();
            } catch (KeeperException.ConnectionLossException unknown) {
                refused++;
            }
            Thread.sleep(10);
        }
        return new Writes(done, refused, longest / 1_000_000);
    }

    /** Checks that the session, its node and its watch still exist, and closes the session. */
    Seen end() throws Exception {
        over.set(true);
        Writes written = Stage.end(writes);
        int breaks = disconnected.get();
        Stage.until("there is a connection in the end", () -> client.getState().isConnected());
        int before = events.get();
        client.setData(path, "end".getBytes(StandardCharsets.UTF_8), -1);
        Stage.until("the watch still fires", () -> events.get() > before);
        Stat mine = client.exists(path + "/mine", false);
        Stage.check(expired.get() == 0, "the session never expires");
        Stage.check(client.getSessionId() == id, "the session is the same");
        Stage.check(mine != null && mine.getEphemeralOwner() == id, "the ephemeral node is still there");
        client.close();
        int needless = breaks - deathsOfOwnServer;
        return new Seen(breaks, needless, written.refused, written.done, events.get(), written.longestGapMs);
    }

    private record Writes(int done, int refused, long longestGapMs) {}

    /** Counts of the disturbances that an application noticed. */
    record Seen(int disconnected, int needless, int refused, int written, int events, long longestGapMs) {
        Seen plus(Seen other) {
            return new Seen(
                    disconnected + other.disconnected,
                    needless + other.needless,
                    refused + other.refused,
                    written + other.written,
                    events + other.events,
                    Math.max(longestGapMs, other.longestGapMs));
        }
    }
}
