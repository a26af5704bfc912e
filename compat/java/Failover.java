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

/**
 * What an application sees of leader changes: one session of Apache's own client with an ephemeral node, a recursive watch
 * and a write every 10 ms, while each server dies and comes back in turn.
 */
final class Failover {
    private Failover() {}

    static String run(Stage stage) throws Exception {
        AtomicInteger connected = new AtomicInteger();
        AtomicInteger disconnected = new AtomicInteger();
        AtomicInteger expired = new AtomicInteger();
        AtomicInteger changes = new AtomicInteger();
        try (ZooKeeper client = new ZooKeeper(stage.servers, 20_000, event -> count(event, connected, disconnected, expired))) {
            Stage.until("there is a session", () -> connected.get() > 0);
            long session = client.getSessionId();
            client.create("/failover", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            client.create("/failover/mine", new byte[0], Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            client.addWatch("/failover", event -> {
                if (event.getType() == EventType.NodeDataChanged) {
                    changes.incrementAndGet();
                }
            }, AddWatchMode.PERSISTENT_RECURSIVE);
            AtomicBoolean over = new AtomicBoolean();
            Future<Writes> writes = stage.start(() -> write(client, over));
            for (int server = 1; server <= 3; server++) {
                stage.fault(server);
            }
            over.set(true);
            Writes written = Stage.end(writes);
            // The write that shows that the session still works, and its watch.
            int before = changes.get();
            client.setData("/failover", "end".getBytes(StandardCharsets.UTF_8), -1);
            Stage.until("the watch still fires", () -> changes.get() > before);
            Stat mine = client.exists("/failover/mine", false);
            Stage.check(expired.get() == 0, "the session never expires");
            Stage.check(client.getSessionId() == session, "the session is the same");
            Stage.check(mine != null && mine.getEphemeralOwner() == session, "the ephemeral node is still there");
            return "disconnected=" + disconnected + " expired=" + expired + " refused=" + written.refused
                    + " written=" + written.done + " seen=" + changes + " longest_gap_ms=" + written.longestGapMs;
        }
    }

    private static void count(WatchedEvent event, AtomicInteger connected, AtomicInteger disconnected, AtomicInteger expired) {
        if (event.getState() == KeeperState.SyncConnected) {
            connected.incrementAndGet();
        } else if (event.getState() == KeeperState.Disconnected) {
            disconnected.incrementAndGet();
        } else if (event.getState() == KeeperState.Expired) {
            expired.incrementAndGet();
        }
    }

    private static Writes write(ZooKeeper client, AtomicBoolean over) throws Exception {
        int done = 0;
        int refused = 0;
        long longest = 0;
        long last = System.nanoTime();
        while (!over.get()) {
            try {
                client.setData("/failover", Integer.toString(done).getBytes(StandardCharsets.UTF_8), -1);
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

    private record Writes(int done, int refused, long longestGapMs) {}
}
