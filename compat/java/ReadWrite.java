package pole.compat;

import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;

/** Readers share a lock, a writer excludes all others. One fault occurs during a read, one during a write. */
final class ReadWrite {
    private ReadWrite() {}

    static String run(Stage stage) throws Exception {
        CuratorFramework a = stage.client();
        CuratorFramework b = stage.client();
        bothRead(stage, a, b);
        String excluded = writersExclude(stage, a, b);
        return "two readers at once, also over a fault; " + excluded;
    }

    /** Neither client releases the lock before both hold it. */
    private static void bothRead(Stage stage, CuratorFramework a, CuratorFramework b) throws Exception {
        CyclicBarrier both = new CyclicBarrier(2);
        Future<Boolean> first = stage.start(() -> read(a, () -> {
            both.await(30, TimeUnit.SECONDS);
            stage.fault();
            both.await(60, TimeUnit.SECONDS);
        }));
        Future<Boolean> second = stage.start(() -> read(b, () -> {
            both.await(30, TimeUnit.SECONDS);
            both.await(60, TimeUnit.SECONDS);
        }));
        Stage.end(first);
        Stage.end(second);
    }

    private static boolean read(CuratorFramework client, Fence.Body body) throws Exception {
        held(new InterProcessReadWriteLock(client, "/read-write").readLock(), body);
        return true;
    }

    private static String writersExclude(Stage stage, CuratorFramework a, CuratorFramework b) throws Exception {
        Fence fence = new Fence(a, "/fences/read-write");
        AtomicInteger readers = new AtomicInteger();
        AtomicInteger writers = new AtomicInteger();
        Future<Boolean> first = stage.start(() -> rounds(stage, a, fence, readers, writers, true));
        Future<Boolean> second = stage.start(() -> rounds(stage, b, fence, readers, writers, false));
        Stage.end(first);
        Stage.end(second);
        Stage.check(fence.terms() == ROUNDS, "every write was held: " + fence.terms());
        return fence.terms() + " writes without a reader";
    }

    /** Alternates between writes and reads. */
    private static boolean rounds(
            Stage stage, CuratorFramework client, Fence fence, AtomicInteger readers, AtomicInteger writers, boolean disturbs)
            throws Exception {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, "/read-write");
        for (int round = 0; round < ROUNDS; round++) {
            boolean disturb = disturbs && round == ROUNDS / 2;
            if (round % 2 == 0) {
                held(lock.writeLock(), () -> fence.hold(client, () -> {
                    writers.incrementAndGet();
                    Stage.check(readers.get() == 0, "nobody reads while one writes");
                    if (disturb) {
                        stage.fault();
                    }
                    Stage.check(readers.get() == 0, "nobody began to read while one writes");
                    writers.decrementAndGet();
                }));
            } else {
                held(lock.readLock(), () -> {
                    readers.incrementAndGet();
                    Stage.check(writers.get() == 0, "nobody writes while one reads");
                    client.checkExists().forPath("/fences/read-write");
                    Stage.check(writers.get() == 0, "nobody began to write while one reads");
                    readers.decrementAndGet();
                });
            }
        }
        return true;
    }

    private static void held(InterProcessMutex lock, Fence.Body body) throws Exception {
        lock.acquire();
        try {
            body.run();
        } finally {
            lock.release();
        }
    }

    private static final int ROUNDS = 20;
}
