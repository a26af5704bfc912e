package pole.compat;

import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Two clients compete for a lock. The fault occurs while one of them holds it. */
final class Mutex {
    private Mutex() {}

    static String run(Stage stage) throws Exception {
        CuratorFramework a = stage.client();
        CuratorFramework b = stage.client();
        Fence fence = new Fence(a, "/fences/mutex");
        Future<Boolean> first = stage.start(() -> rounds(stage, a, fence, true));
        Future<Boolean> second = stage.start(() -> rounds(stage, b, fence, false));
        Stage.end(first);
        Stage.end(second);
        Stage.check(fence.terms() == 2 * ROUNDS, "every round was held: " + fence.terms());
        return fence.terms() + " times held, by one at a time";
    }

    private static boolean rounds(Stage stage, CuratorFramework client, Fence fence, boolean disturbs) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, "/mutex");
        for (int round = 0; round < ROUNDS; round++) {
            boolean disturb = disturbs && round == ROUNDS / 3;
            mutex.acquire();
            try {
                fence.hold(client, () -> {
                    if (disturb) {
                        stage.fault();
                    }
                });
            } finally {
                mutex.release();
            }
        }
        return true;
    }

    private static final int ROUNDS = 30;
}
