package pole.compat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.SessionConnectionStateErrorPolicy;
import org.apache.curator.retry.RetryNTimes;

/** Creates the clients of a program, and requests faults from the process that started it. */
final class Stage implements AutoCloseable {
    /** The connect string. */
    final String servers;

    private final List<CuratorFramework> clients = new ArrayList<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final BufferedReader answers = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    Stage(String servers) {
        this.servers = servers;
    }

    /** Creates a client with its own session. It gives up a lock only when the session is lost, not when a connection is. */
    CuratorFramework client() throws Exception {
        return client(true);
    }

    /** The same. Unless it follows the configuration of the ensemble, it knows only the addresses of the connect string. */
    CuratorFramework client(boolean followsConfiguration) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .ensembleTracker(followsConfiguration)
                .connectString(servers)
                .sessionTimeoutMs(20_000)
                .connectionTimeoutMs(10_000)
                // Longer than any election, so an operation that still fails then is a real failure.
                .retryPolicy(new RetryNTimes(300, 100))
                .connectionStateErrorPolicy(new SessionConnectionStateErrorPolicy())
                .build();
        clients.add(client);
        client.start();
        check(client.blockUntilConnected(30, TimeUnit.SECONDS), "a client is connected within 30 s");
        return client;
    }

    /** Has the leader killed and restarted, or the only server restarted. Returns when the servers serve again. */
    void fault() throws IOException {
        ask("@fault");
    }

    /** Has one server killed and restarted. */
    void fault(int server) throws IOException {
        ask("@fault " + server);
    }

    private synchronized void ask(String request) throws IOException {
        System.out.println(request);
        String answer = answers.readLine();
        check("done".equals(answer), "the fault was done, not: " + answer);
    }

    /** Runs work on another thread. */
    <T> Future<T> start(Callable<T> work) {
        return threads.submit(work);
    }

    static <T> T end(Future<T> work) throws Exception {
        return work.get(LIMIT_S, TimeUnit.SECONDS);
    }

    static void until(String what, BooleanSupplier holds) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
        while (!holds.getAsBoolean()) {
            check(System.nanoTime() < deadline, what + ", within " + LIMIT_S + " s");
            Thread.sleep(2);
        }
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("this does not hold: " + what);
        }
    }

    @Override
    public void close() {
        clients.forEach(CuratorFramework::close);
        threads.shutdownNow();
    }

    /** Longer than a session timeout, so that an operation that waits for an expiry still succeeds. */
    private static final long LIMIT_S = 60;
}
