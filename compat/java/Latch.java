package pole.compat;

import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;

/** Leadership by latch stays with its holder during a fault, and moves when the holder leaves. */
final class Latch {
    private Latch() {}

    static String run(Stage stage) throws Exception {
        CuratorFramework a = stage.client();
        CuratorFramework b = stage.client();
        LeaderLatch first = new LeaderLatch(a, "/latch", "a");
        LeaderLatch second = new LeaderLatch(b, "/latch", "b");
        first.start();
        Stage.until("the first alone leads", first::hasLeadership);
        second.start();
        Stage.until("both take part", () -> participants(second) == 2);

        AtomicBoolean over = new AtomicBoolean();
        Future<Integer> looks = stage.start(() -> {
            int count = 0;
            while (!over.get()) {
                Stage.check(first.hasLeadership(), "the holder leads on while it has its session");
                Stage.check(!second.hasLeadership(), "there is one leader");
                count++;
                Thread.sleep(1);
            }
            return count;
        });
        stage.fault();
        Stage.until("both still take part", () -> participants(second) == 2);
        over.set(true);
        int looked = Stage.end(looks);

        first.close();
        Stage.until("the other leads when the holder has left", second::hasLeadership);
        Stage.check(!first.hasLeadership(), "who has left does not lead");
        second.close();
        return "the leader stayed over the fault (" + looked + " looks), the other followed it";
    }

    private static int participants(LeaderLatch latch) {
        try {
            return latch.getParticipants().size();
        } catch (Exception why) {
            return 0;
        }
    }
}
