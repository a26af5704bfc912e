package pole.compat;

import java.util.List;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Apache's client with SASL GSSAPI. The sections are in crates/harness/src/compat/kerberos.rs. */
final class Kerberos {
    private Kerberos() {}

    /** On servers where authentication is optional, and users have the names of their principals. */
    static String run(Stage stage) throws Exception {
        Sasl bob = Sasl.as(stage, "Bob", SERVICE);
        Sasl carol = Sasl.as(stage, "Carol", SERVICE);
        Sasl root = Sasl.as(stage, "Root", SERVICE);
        Sasl nobody = Sasl.nobody(stage);
        bob.create("/java", Sasl.only("bob@POLE.TEST"));
        bob.create("/java/auth", Ids.CREATOR_ALL_ACL);
        check(bob, "/java/auth", "bob@POLE.TEST");
        Stage.check(bob.read() == Code.OK, "bob may read");
        Sasl stranger = Sasl.as(stage, "Stranger", SERVICE);
        for (Sasl other : List.of(carol, nobody, stranger)) {
            other.sync();
            Stage.check(other.read() == Code.NOAUTH, "others may not");
        }
        root.sync();
        Stage.check(root.read() == Code.OK, "the superuser may");
        carol.create("/java-carol", Ids.CREATOR_ALL_ACL);
        check(carol, "/java-carol", "carol/desk.test@POLE.TEST");
        Sasl.wrong(stage, "Bob", "other/localhost@POLE.TEST");
        stage.fault();
        Stage.check(bob.read() == Code.OK, "bob has authenticated again");
        Stage.check(carol.read() == Code.NOAUTH, "and carol is still carol");
        carol.client.delete("/java-carol", -1);
        bob.client.delete("/java/auth", -1);
        bob.client.delete("/java", -1);
        for (Sasl one : List.of(bob, carol, root, nobody, stranger)) {
            one.client.close();
        }
        return "users, superuser, strangers, another service, another realm, a new connection";
    }

    /** On servers that require SASL, and remove hosts and realms from the names. */
    static String runRequired(Stage stage) throws Exception {
        Sasl carol = Sasl.as(stage, "Carol", SERVICE);
        carol.create("/java", Ids.CREATOR_ALL_ACL);
        check(carol, "/java", "carol");
        Sasl bob = Sasl.as(stage, "Bob", SERVICE);
        bob.sync();
        Stage.check(bob.read() == Code.NOAUTH, "bob may not read");
        Sasl nobody = Sasl.nobody(stage);
        Code first = nobody.read();
        Stage.check(first == Code.SESSIONCLOSEDREQUIRESASLAUTH, "nobody is refused: " + first);
        nobody.client.close();
        Sasl stranger = Sasl.as(stage, "Stranger", SERVICE);
        stranger.create("/java-other", Ids.CREATOR_ALL_ACL);
        check(stranger, "/java-other", "bob@OTHER.TEST");
        stranger.client.delete("/java-other", -1);
        stranger.client.close();
        Sasl.wrong(stage, "Bob", "other/localhost@POLE.TEST");
        stage.fault();
        Stage.check(carol.read() == Code.OK, "carol has authenticated again");
        carol.client.delete("/java", -1);
        carol.client.close();
        bob.client.close();
        return "short names, nobody: " + first;
    }

    /** Checks who `auth` stands for. */
    private static void check(Sasl user, String path, String name) throws Exception {
        Id owner = user.client.getACL(path, new Stat()).get(0).getId();
        Stage.check(owner.equals(new Id("sasl", name)), "`auth` stands for " + name + ", not for " + owner);
    }

    private static final String SERVICE = "zookeeper/localhost@POLE.TEST";
}
