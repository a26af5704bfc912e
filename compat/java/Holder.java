package pole.compat;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.data.Stat;

/**
 * One client holds a lock, an ephemeral node and a watch, another one waits for the lock, while the servers under both are
 * replaced. Each request for a fault stands for one replacement; there are {@link #REPLACEMENTS}.
 */
final class Holder {
    private Holder() {}

    static String run(Stage stage) throws Exception {
        // The new servers have other addresses, which `/zookeeper/config` of the old ones does not contain.
        CuratorFramework holder = stage.client(false);
        CuratorFramework waiter = stage.client(false);
        AtomicInteger lost = new AtomicInteger();
        for (CuratorFramework client : new CuratorFramework[] {holder, waiter}) {
            client.getConnectionStateListenable().addListener((any, state) -> {
                if (state == ConnectionState.LOST) {
                    lost.incrementAndGet();
                }
            });
        }
        holder.create().creatingParentsIfNeeded().forPath(SIGNAL);
        holder.create().withMode(CreateMode.EPHEMERAL).forPath(MINE);
        InterProcessMutex held = new InterProcessMutex(holder, LOCK);
        held.acquire();
        Future<Boolean> waiting = stage.start(() -> {
            new InterProcessMutex(waiter, LOCK).acquire();
            return true;
        });
        Stage.until("two are in the queue of the lock", () -> queue(holder) == 2);
        long id = session(holder);
        long waiterId = session(waiter);
        AtomicInteger events = new AtomicInteger();
        for (int replacement = 1; replacement <= REPLACEMENTS; replacement++) {
            int before = events.get();
            watch(holder, events);
            stage.fault();
            Stage.check(events.get() == before, "the watch is silent while nothing changes");
            waiter.setData().forPath(SIGNAL, Integer.toString(replacement).getBytes(StandardCharsets.UTF_8));
            Stage.until("the watch fires after replacement " + replacement, () -> events.get() == before + 1);
            Stat mine = holder.checkExists().forPath(MINE);
            Stage.check(mine != null && mine.getEphemeralOwner() == id, "the ephemeral node is still there");
            Stage.check(session(holder) == id && session(waiter) == waiterId, "the sessions are the same");
            Stage.check(lost.get() == 0, "no session is lost");
            Stage.check(!waiting.isDone() && queue(holder) == 2, "the lock is still held, and one waits for it");
        }
        held.release();
        Stage.check(Stage.end(waiting), "the lock is handed on");
        return "a lock, an ephemeral node, a watch and both sessions kept";
    }

    private static void watch(CuratorFramework client, AtomicInteger events) throws Exception {
        // The watch of Apache's client, which fires once and is set again by the client at a reconnection.
        client.getZookeeperClient().getZooKeeper().exists(SIGNAL, event -> {
            if (event.getType() == EventType.NodeDataChanged) {
                events.incrementAndGet();
            }
        });
    }

    private static long session(CuratorFramework client) throws Exception {
        return client.getZookeeperClient().getZooKeeper().getSessionId();
    }

    private static int queue(CuratorFramework client) {
        try {
            return client.getChildren().forPath(LOCK).size();
        } catch (Exception why) {
            throw new AssertionError("this does not hold: the queue of the lock can be read", why);
        }
    }

    private static final int REPLACEMENTS = 3;
    private static final String LOCK = "/held-by-java/lock";
    private static final String SIGNAL = "/held-by-java/signal";
    private static final String MINE = "/held-by-java/mine";
}
