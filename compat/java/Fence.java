package pole.compat;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Detects two concurrent holders in two ways: with a counter in this process, and with a node that a holder reads when it enters
 * and that must be unchanged when it leaves.
 */
final class Fence {
    private final String path;
    private final AtomicInteger holders = new AtomicInteger();
    private final AtomicInteger terms = new AtomicInteger();

    Fence(CuratorFramework client, String path) throws Exception {
        this.path = path;
        client.create().creatingParentsIfNeeded().forPath(path);
    }

    /** Runs the body. Fails if another holder is active at the same time. */
    void hold(CuratorFramework client, Body body) throws Exception {
        Stage.check(holders.incrementAndGet() == 1, "one holder at a time");
        client.sync().forPath(path);
        Stat before = new Stat();
        client.getData().storingStatIn(before).forPath(path);
        body.run();
        leave(client, before.getVersion());
        terms.incrementAndGet();
        Stage.check(holders.decrementAndGet() == 0, "nobody else entered");
    }

    private void leave(CuratorFramework client, int version) throws Exception {
        byte[] mine = UUID.randomUUID().toString().getBytes(StandardCharsets.UTF_8);
        try {
            client.setData().withVersion(version).forPath(path, mine);
        } catch (KeeperException.BadVersionException changed) {
            // If the reply to a write was lost, Curator retries it, and the retry finds the version changed by the first try.
            boolean byMe = Arrays.equals(client.getData().forPath(path), mine);
            Stage.check(byMe, "nobody wrote while we held");
        }
    }

    int terms() {
        return terms.get();
    }

    interface Body {
        void run() throws Exception;
    }
}
