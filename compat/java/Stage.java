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

/** The clients of a program, and its way to ask for a fault. */
final class Stage implements AutoCloseable {
    /** Where the servers are, as a client takes it. */
    final String servers;

    private final List<CuratorFramework> clients = new ArrayList<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final BufferedReader answers = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    Stage(String servers) {
        this.servers = servers;
    }

    /** A client with a session of its own. A lost connection is no lost session: only the latter gives up a lock. */
    CuratorFramework client() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(servers)
                .sessionTimeoutMs(20_000)
                .connectionTimeoutMs(10_000)
                // Longer than any election: what fails after that fails for good.
                .retryPolicy(new RetryNTimes(300, 100))
                .connectionStateErrorPolicy(new SessionConnectionStateErrorPolicy())
                .build();
        clients.add(client);
        client.start();
        check(client.blockUntilConnected(30, TimeUnit.SECONDS), "a client is connected within 30 s");
        return client;
    }

    /** The leader is killed and comes back, or the only server is restarted; returns when the servers serve again. */
    void fault() throws IOException {
        ask("@fault");
    }

    /** One server is killed and comes back. */
    void fault(int server) throws IOException {
        ask("@fault " + server);
    }

    private synchronized void ask(String request) throws IOException {
        System.out.println(request);
        String answer = answers.readLine();
        check("done".equals(answer), "the fault was done, not: " + answer);
    }

    /** Runs something beside the caller. */
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

    /** Longer than a session: what waits for an expiry comes in time. */
    private static final long LIMIT_S = 60;
}
