package pole.compat;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** A barrier holds back until it is removed, also over a fault; a double one lets all in and out together. */
final class Barrier {
    private Barrier() {}

    static String run(Stage stage) throws Exception {
        CuratorFramework a = stage.client();
        CuratorFramework b = stage.client();
        heldBack(stage, a, b);
        together(stage, a, b);
        return "nobody passed before its removal; all went in and out together " + ROUNDS + " times";
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
        come.countDown();
        boolean passed = new DistributedBarrier(client, "/barrier").waitOnBarrier(50, TimeUnit.SECONDS);
        Stage.check(passed, "the barrier opens when it is removed");
        Stage.check(removed.get(), "the barrier opens only when it is removed");
        return true;
    }

    private static void together(Stage stage, CuratorFramework a, CuratorFramework b) throws Exception {
        AtomicInteger arrived = new AtomicInteger();
        AtomicInteger leaving = new AtomicInteger();
        Future<Boolean> first = stage.start(() -> entersAndLeaves(a, arrived, leaving));
        Future<Boolean> second = stage.start(() -> entersAndLeaves(b, arrived, leaving));
        Stage.end(first);
        Stage.end(second);
    }

    private static boolean entersAndLeaves(CuratorFramework client, AtomicInteger arrived, AtomicInteger leaving)
            throws Exception {
        for (int round = 1; round <= ROUNDS; round++) {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/double-" + round, 2);
            arrived.incrementAndGet();
            Stage.check(barrier.enter(40, TimeUnit.SECONDS), "both enter");
            Stage.check(arrived.get() >= 2 * round, "nobody enters before both have arrived");
            leaving.incrementAndGet();
            Stage.check(barrier.leave(40, TimeUnit.SECONDS), "both leave");
            Stage.check(leaving.get() >= 2 * round, "nobody has left before both want to");
        }
        return true;
    }

    private static final int ROUNDS = 10;
}
