package pole.compat;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * Notices two holders at the same time, twice over: by a counter in this process, and by a node that a holder reads when it
 * enters and may find changed by nobody when it leaves.
 */
final class Fence {
    private final String path;
    private final AtomicInteger holders = new AtomicInteger();
    private final AtomicInteger terms = new AtomicInteger();

    Fence(CuratorFramework client, String path) throws Exception {
        this.path = path;
        client.create().creatingParentsIfNeeded().forPath(path);
    }

    /** A stretch in which nobody else may hold. */
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
            // A write whose answer was lost is sent again by Curator, and then meets itself.
            boolean byMe = Arrays.equals(client.getData().forPath(path), mine);
            Stage.check(byMe, "nobody wrote while we held");
        }
    }

    int terms() {
        return terms.get();
    }

    /** What is done while holding. */
    interface Body {
        void run() throws Exception;
    }
}
