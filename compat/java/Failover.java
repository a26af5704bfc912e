package pole.compat;

import java.util.ArrayList;
import java.util.List;

/**
 * The effects of leader changes on applications: sessions of Apache's own client, one at each server and one with the addresses
 * of all, while each server is killed and restarted in turn.
 *
 * <p>A client whose own server dies loses its connection. All other disconnects are counted as needless.
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
