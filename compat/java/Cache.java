package pole.compat;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;

/** The cache of one client follows the changes of another, and equals the tree in the end. */
final class Cache {
    private Cache() {}

    static String run(Stage stage) throws Exception {
        CuratorFramework a = stage.client();
        CuratorFramework b = stage.client();
        b.create().forPath("/cache", new byte[0]);
        AtomicInteger events = new AtomicInteger();
        try (CuratorCache cache = CuratorCache.build(a, "/cache")) {
            cache.listenable().addListener(CuratorCacheListener.builder().forAll((type, before, after) -> events.incrementAndGet()).build());
            cache.start();
            AtomicBoolean over = new AtomicBoolean();
            Future<Integer> changes = stage.start(() -> change(b, over));
            stage.fault();
            over.set(true);
            int changed = Stage.end(changes);
            Map<String, String> tree = new TreeMap<>();
            read(b, "/cache", tree);
            Stage.until("the cache equals the tree", () -> content(cache).equals(tree));
            return changed + " changes, " + events + " events, " + tree.size() + " nodes equal in the end";
        }
    }

    /** Creates, changes and deletes nodes at two depths until stopped, and some more times after that. */
    private static int change(CuratorFramework client, AtomicBoolean over) throws Exception {
        int changed = 0;
        for (int left = AFTER; left > 0; left -= over.get() ? 1 : 0) {
            String path = "/cache/" + changed % 10 + "/" + changed % 7;
            byte[] data = Integer.toString(changed).getBytes(StandardCharsets.UTF_8);
            if (changed % 3 == 2) {
                client.delete().quietly().forPath(path);
            } else {
                client.create().orSetData().creatingParentsIfNeeded().forPath(path, data);
            }
            changed++;
        }
        return changed;
    }

    private static void read(CuratorFramework client, String path, Map<String, String> tree) throws Exception {
        tree.put(path, new String(client.getData().forPath(path), StandardCharsets.UTF_8));
        for (String child : client.getChildren().forPath(path)) {
            read(client, path + "/" + child, tree);
        }
    }

    private static Map<String, String> content(CuratorCache cache) {
        Map<String, String> content = new TreeMap<>();
        cache.stream().forEach((ChildData node) -> content.put(node.getPath(), new String(node.getData(), StandardCharsets.UTF_8)));
        return content;
    }

    private static final int AFTER = 200;
}
