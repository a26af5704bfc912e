package pole.compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Apache's client with SASL, here with DIGEST-MD5. Each client uses a section of the JAAS file, or none; the sections are in
 * crates/harness/src/compat/sasl.rs.
 */
final class Sasl {
    final ZooKeeper client;
    private final Set<KeeperState> states = ConcurrentHashMap.newKeySet();

    /** `service` is the principal of the servers, for Kerberos. */
    private Sasl(Stage stage, String section, String service) throws Exception {
        ZKClientConfig config = new ZKClientConfig();
        config.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, Boolean.toString(section != null));
        config.setProperty(ZKClientConfig.LOGIN_CONTEXT_NAME_KEY, section == null ? "None" : section);
        if (service != null) {
            config.setProperty(ZKClientConfig.ZOOKEEPER_SERVER_PRINCIPAL, service);
        }
        // From 3.9 on, clients use this mechanism only without the rules of FIPS.
        config.setProperty("zookeeper.fips-mode", "false");
        client = new ZooKeeper(stage.servers, 20_000, event -> states.add(event.getState()), config);
    }

    /** A client that has authenticated. */
    private static Sasl as(Stage stage, String section) throws Exception {
        return as(stage, section, null);
    }

    static Sasl as(Stage stage, String section, String service) throws Exception {
        Sasl sasl = new Sasl(stage, section, service);
        Stage.until(section + " is authenticated", () -> sasl.states.contains(KeeperState.SaslAuthenticated));
        return sasl;
    }

    /** A client that does not use SASL. */
    static Sasl nobody(Stage stage) throws Exception {
        Sasl sasl = new Sasl(stage, null, null);
        Stage.until("nobody is connected", () -> sasl.states.contains(KeeperState.SyncConnected));
        return sasl;
    }

    /** On servers where authentication is optional. */
    static String run(Stage stage) throws Exception {
        Sasl bob = as(stage, "Bob");
        Sasl alice = as(stage, "Alice");
        Sasl root = as(stage, "Root");
        Sasl nobody = nobody(stage);
        bob.create("/java", only("bob"));
        bob.create("/java/auth", Ids.CREATOR_ALL_ACL);
        Id owner = bob.client.getACL("/java/auth", new Stat()).get(0).getId();
        Stage.check(owner.equals(new Id("sasl", "bob")), "`auth` stands for bob, not for " + owner);
        Stage.check(bob.read() == Code.OK, "bob may read");
        for (Sasl other : List.of(alice, nobody)) {
            other.sync();
            Stage.check(other.read() == Code.NOAUTH, "others may not");
        }
        root.sync();
        Stage.check(root.read() == Code.OK, "the superuser may");
        for (String name : List.of("a@b@c", "a/b/c@d")) {
            Code code = bob.code(() -> bob.create("/java/odd", only(name)));
            Stage.check(code == Code.INVALIDACL, name + " is not a user: " + code);
        }
        wrong(stage, "Wrong");
        wrong(stage, "Unknown");
        stage.fault();
        Stage.check(bob.read() == Code.OK, "bob has authenticated again");
        Stage.check(alice.read() == Code.NOAUTH, "and alice is still alice");
        bob.client.delete("/java/auth", -1);
        bob.client.delete("/java", -1);
        for (Sasl one : List.of(bob, alice, root, nobody)) {
            one.client.close();
        }
        return "users, superuser, strangers, wrong passwords, a new connection";
    }

    /** On servers that require SASL. */
    static String runRequired(Stage stage) throws Exception {
        Sasl bob = as(stage, "Bob");
        bob.create("/java", Ids.OPEN_ACL_UNSAFE);
        Sasl nobody = nobody(stage);
        Code first = nobody.code(nobody::get);
        Stage.check(first == Code.SESSIONCLOSEDREQUIRESASLAUTH, "nobody is refused: " + first);
        nobody.client.close();
        Sasl digest = nobody(stage);
        digest.client.addAuthInfo("digest", "u:p".getBytes(StandardCharsets.UTF_8));
        Code second = digest.code(digest::get);
        Stage.check(second == Code.SESSIONCLOSEDREQUIRESASLAUTH, "a digest does not count: " + second);
        digest.client.close();
        wrong(stage, "Wrong");
        stage.fault();
        Stage.check(bob.read() == Code.OK, "bob has authenticated again");
        bob.client.delete("/java", -1);
        bob.client.close();
        return "nobody: " + first + ", digest: " + second;
    }

    /** A client whose credentials are wrong gets no session. */
    private static void wrong(Stage stage, String section) throws Exception {
        wrong(stage, section, null);
    }

    static void wrong(Stage stage, String section, String service) throws Exception {
        Sasl sasl = new Sasl(stage, section, service);
        Stage.until(section + " is refused", () -> sasl.states.contains(KeeperState.AuthFailed)
                || sasl.states.contains(KeeperState.Closed));
        Stage.check(!sasl.states.contains(KeeperState.SaslAuthenticated), section + " is not authenticated");
        sasl.client.close();
    }

    /** The client looks for null in the list, which the lists of List.of do not allow. */
    static List<ACL> only(String user) {
        return new ArrayList<>(List.of(new ACL(Perms.ALL, new Id("sasl", user))));
    }

    void create(String path, List<ACL> acl) throws KeeperException, InterruptedException {
        client.create(path, "mine".getBytes(StandardCharsets.UTF_8), acl, CreateMode.PERSISTENT);
    }

    private void get() throws KeeperException, InterruptedException {
        client.getData("/java", false, null);
    }

    /** Waits until the server of this client has seen everything. */
    void sync() throws InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        client.sync("/java", (code, path, context) -> done.countDown(), null);
        done.await();
    }

    /** Reads until the client has a connection. */
    Code read() throws InterruptedException {
        Code[] code = {Code.CONNECTIONLOSS};
        Stage.until("there is an answer", () -> {
            code[0] = code(this::get);
            return code[0] != Code.CONNECTIONLOSS;
        });
        return code[0];
    }

    private Code code(Call call) {
        try {
            call.run();
            return Code.OK;
        } catch (KeeperException error) {
            return error.code();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private interface Call {
        void run() throws KeeperException, InterruptedException;
    }
}
