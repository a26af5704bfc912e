package pole.compat;

import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/**
 * Two clients increment one counter. Without a fault, the sum is exact.
 *
 * <p>With a fault, it is exact except for writes in flight when a connection broke: Curator retries a write whose reply was lost,
 * and cannot know whether it then counts twice.
 */
final class Counter {
    private Counter() {}

    static String run(Stage stage) throws Exception {
        CuratorFramework a = stage.client();
        CuratorFramework b = stage.client();
        AtomicInteger breaks = new AtomicInteger();
        for (CuratorFramework client : new CuratorFramework[] {a, b}) {
            client.getConnectionStateListenable().addListener((which, state) -> {
                if (state == ConnectionState.SUSPENDED) {
                    breaks.incrementAndGet();
                }
            });
        }
        exact(stage, a, b);
        return "the sum is exact; " + overFault(stage, a, b, breaks);
    }

    private static void exact(Stage stage, CuratorFramework a, CuratorFramework b) throws Exception {
        Future<Integer> first = stage.start(() -> count(a, "/exact", new AtomicBoolean(), ROUNDS));
        Future<Integer> second = stage.start(() -> count(b, "/exact", new AtomicBoolean(), ROUNDS));
        long counted = Stage.end(first) + Stage.end(second);
        long sum = value(a, "/exact");
        Stage.check(counted == 2 * ROUNDS && sum == counted, "the sum is " + counted + ", not " + sum);
    }

    private static String overFault(Stage stage, CuratorFramework a, CuratorFramework b, AtomicInteger breaks)
            throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        Future<Integer> first = stage.start(() -> count(a, "/disturbed", over, Integer.MAX_VALUE));
        Future<Integer> second = stage.start(() -> count(b, "/disturbed", over, Integer.MAX_VALUE));
        stage.fault();
        over.set(true);
        long counted = Stage.end(first) + Stage.end(second);
        long sum = value(a, "/disturbed");
        long surplus = sum - counted;
        Stage.check(surplus >= 0, "no acknowledged count is lost: " + counted + " acknowledged, sum " + sum);
        Stage.check(surplus <= breaks.get(), "nothing counts twice but by a break: " + surplus + " over, " + breaks + " breaks");
        return "over a fault " + counted + " acknowledged and " + surplus + " over, with " + breaks + " connections broken";
    }

    private static int count(CuratorFramework client, String path, AtomicBoolean over, int rounds) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new RetryNTimes(1000, 1));
        int counted = 0;
        while (counted < rounds && !over.get()) {
            AtomicValue<Long> value = counter.increment();
            Stage.check(value.succeeded(), "a count succeeds in the end");
            counted++;
        }
        return counted;
    }

    private static long value(CuratorFramework client, String path) throws Exception {
        client.sync().forPath(path);
        return new DistributedAtomicLong(client, path, new RetryNTimes(1000, 1)).get().postValue();
    }

    private static final int ROUNDS = 100;
}
