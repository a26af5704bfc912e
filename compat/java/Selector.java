package pole.compat;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Two clients lead in turn, never both at once. One of the terms has a fault. */
final class Selector {
    private Selector() {}

    static String run(Stage stage) throws Exception {
        CuratorFramework a = stage.client();
        CuratorFramework b = stage.client();
        Fence fence = new Fence(a, "/fences/selector");
        AtomicBoolean faulted = new AtomicBoolean();
        AtomicReference<Throwable> wrong = new AtomicReference<>();
        Terms termsOfA = new Terms(stage, fence, faulted, wrong);
        Terms termsOfB = new Terms(stage, fence, faulted, wrong);
        try (LeaderSelector first = new LeaderSelector(a, "/selector", termsOfA);
                LeaderSelector second = new LeaderSelector(b, "/selector", termsOfB)) {
            first.autoRequeue();
            second.autoRequeue();
            first.start();
            second.start();
            Stage.until("each led five times", () -> wrong.get() != null || (termsOfA.enough() && termsOfB.enough()));
        }
        if (wrong.get() != null) {
            throw new AssertionError("a term went wrong", wrong.get());
        }
        return fence.terms() + " terms, one leader in each";
    }

    private static final class Terms extends LeaderSelectorListenerAdapter {
        private final Stage stage;
        private final Fence fence;
        private final AtomicBoolean faulted;
        private final AtomicReference<Throwable> wrong;
        private final AtomicInteger count = new AtomicInteger();

        Terms(Stage stage, Fence fence, AtomicBoolean faulted, AtomicReference<Throwable> wrong) {
            this.stage = stage;
            this.fence = fence;
            this.faulted = faulted;
            this.wrong = wrong;
        }

        @Override
        public void takeLeadership(CuratorFramework client) {
            try {
                boolean disturb = count.get() == 2 && faulted.compareAndSet(false, true);
                fence.hold(client, () -> {
                    if (disturb) {
                        stage.fault();
                    }
                });
                count.incrementAndGet();
            } catch (InterruptedException closing) {
                Thread.currentThread().interrupt();
            } catch (Throwable why) {
                // The selectors are closed when both have led often enough, which may interrupt a term.
                if (!enough()) {
                    wrong.compareAndSet(null, why);
                }
            }
        }

        boolean enough() {
            return count.get() >= 5;
        }
    }
}
