package pole.compat;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/**
 * Barriers: clients wait at a barrier until it is removed, also during a fault; at a double barrier, all clients enter together and
 * all leave.
 */
final class Barrier {
    private Barrier() {}

    static String run(Stage stage) throws Exception {
        CuratorFramework a = stage.client();
        CuratorFramework b = stage.client();
        heldBack(stage, a, b);
        together(stage, a, b);
        return "nobody passed before its removal; all went in together and all came out " + ROUNDS + " times";
    }

    private static void heldBack(Stage stage, CuratorFramework a, CuratorFramework b) throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(a, "/barrier");
        barrier.setBarrier();
        AtomicBoolean removed = new AtomicBoolean();
        CountDownLatch come = new CountDownLatch(2);
        Future<Boolean> first = stage.start(() -> passes(a, come, removed));
        Future<Boolean> second = stage.start(() -> passes(b, come, removed));
        come.await();
        stage.fault();
        Stage.check(!first.isDone() && !second.isDone(), "both still wait after the fault");
        removed.set(true);
        barrier.removeBarrier();
        Stage.end(first);
        Stage.end(second);
    }

    private static boolean passes(CuratorFramework client, CountDownLatch come, AtomicBoolean removed) throws Exception {
        // This client's server may not have applied the creation of the barrier yet. The requests of a session keep their order.
        client.sync().forPath("/barrier");
        come.countDown();
        boolean passed = new DistributedBarrier(client, "/barrier").waitOnBarrier(50, TimeUnit.SECONDS);
        Stage.check(passed, "the barrier opens when it is removed");
        Stage.check(removed.get(), "the barrier opens only when it is removed");
        return true;
    }

    private static void together(Stage stage, CuratorFramework a, CuratorFramework b) throws Exception {
        AtomicInteger arrived = new AtomicInteger();
        AtomicInteger inside = new AtomicInteger();
        Future<Boolean> first = stage.start(() -> entersAndLeaves(a, arrived, inside));
        Future<Boolean> second = stage.start(() -> entersAndLeaves(b, arrived, inside));
        Stage.end(first);
        Stage.end(second);
    }

    /**
     * Does not check that both leave together: Curator 5.4 lets a client leave early if the notification of its own entry arrives
     * while it waits to leave, with Apache ZooKeeper too (1 of 3,000 rounds). Here, no client leaves before both are inside,
     * because a client that enters after such an early leave may wait forever.
     */
    private static boolean entersAndLeaves(CuratorFramework client, AtomicInteger arrived, AtomicInteger inside)
            throws Exception {
        for (int round = 1; round <= ROUNDS; round++) {
            int both = 2 * round;
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/double-" + round, 2);
            arrived.incrementAndGet();
            Stage.check(barrier.enter(40, TimeUnit.SECONDS), "both enter");
            Stage.check(arrived.get() >= both, "nobody enters before both have arrived");
            inside.incrementAndGet();
            Stage.until("both are inside", () -> inside.get() >= both);
            Stage.check(barrier.leave(40, TimeUnit.SECONDS), "both leave");
        }
        return true;
    }

    private static final int ROUNDS = 10;
}
