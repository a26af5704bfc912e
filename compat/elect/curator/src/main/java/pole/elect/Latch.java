package pole.elect;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.RetryNTimes;

/**
 * A candidate of Curator's LeaderLatch, for the benchmark of elections.
 *
 * <p>Usage: {@code Latch SERVERS PATH SESSION_TIMEOUT_MS ID}. It prints "leading" when it leads, and closes the latch at
 * SIGTERM.
 */
public final class Latch {
    private Latch() {}

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            throw new IllegalArgumentException("usage: Latch SERVERS PATH SESSION_TIMEOUT_MS ID");
        }
        int timeoutMs = Integer.parseInt(args[2]);
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0])
                .sessionTimeoutMs(timeoutMs)
                .connectionTimeoutMs(timeoutMs)
                .retryPolicy(new RetryNTimes(50, 100))
                .build();
        client.start();
        LeaderLatch latch = new LeaderLatch(client, args[1], args[3]);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                System.out.println("leading");
            }

            @Override
            public void notLeader() {}
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> close(latch, client)));
        latch.start();
        Thread.currentThread().join();
    }

    private static void close(LeaderLatch latch, CuratorFramework client) {
        try {
            latch.close();
        } catch (java.io.IOException why) {
            System.err.println(why);
        }
        client.close();
    }
}
