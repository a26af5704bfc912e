package pole.compat;

import java.util.ArrayList;
import java.util.List;

/**
 * What applications see of leader changes: sessions of Apache's own client, one on each server and one that knows them all,
 * while each server dies and comes back in turn.
 *
 * <p>A client whose own server dies must notice. Any more is the work of the others: those breaks are called needless.
 */
final class Failover {
    private Failover() {}

    static String run(Stage stage) throws Exception {
        List<String> servers = List.of(stage.servers.split(","));
        List<Session> sessions = new ArrayList<>();
        for (String server : servers) {
            sessions.add(new Session(server, "/on-" + (sessions.size() + 1)));
        }
        sessions.add(new Session(stage.servers, "/on-all"));
        for (Session session : sessions) {
            session.begin(stage);
        }
        for (int server = 1; server <= servers.size(); server++) {
            for (Session session : sessions) {
                session.beforeDeathOf(servers.get(server - 1));
            }
            stage.fault(server);
        }
        Session.Seen all = new Session.Seen(0, 0, 0, 0, 0, 0);
        for (Session session : sessions) {
            all = all.plus(session.end());
        }
        return "disconnected=" + all.disconnected() + " needless=" + all.needless() + " expired=0 refused=" + all.refused()
                + " written=" + all.written() + " seen=" + all.events() + " longest_gap_ms=" + all.longestGapMs();
    }
}
