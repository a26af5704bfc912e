/* One session holds a lock, an ephemeral node and a watch, another one waits for the lock, while the servers under both are
 * replaced REPLACEMENTS times. The lock is the recipe of ZooKeeper: each client has an ephemeral sequential node and watches the one
 * before its own. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

enum { REPLACEMENTS = 3 };

static const char *PARENT = "/held-by-c", *MINE = "/held-by-c/mine", *SIGNAL = "/held-by-c/signal", *LOCK = "/held-by-c/lock-";

static void create(struct session *it, const char *path, int mode, char *created, int length) {
    check_code(zoo_create(it->handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, mode, created, length), ZOK, path);
}

/* The session is connected again, and neither expired nor replaced. */
static void same(struct session *it, int64_t id) {
    for (int waited_ms = 0; !session_is_connected(it); waited_ms += 2) {
        check(it->expired == 0, "no session expires");
        check(waited_ms < LIMIT_S * 1000, "a connection within %d s", LIMIT_S);
        pause_ms(2);
    }
    check(it->expired == 0 && zoo_client_id(it->handle)->client_id == id, "the session is the same");
}

void holder(const char *servers) {
    static struct session holder, waiter;
    static struct watch released, changed;
    char held[64], waiting[64];
    struct Stat stat;
    released.kind = ZOO_DELETED_EVENT;
    changed.kind = ZOO_CHANGED_EVENT;
    session_open(&holder, servers);
    session_open(&waiter, servers);
    int64_t holder_id = zoo_client_id(holder.handle)->client_id, waiter_id = zoo_client_id(waiter.handle)->client_id;
    create(&holder, PARENT, ZOO_PERSISTENT, NULL, 0);
    create(&holder, SIGNAL, ZOO_PERSISTENT, NULL, 0);
    create(&holder, MINE, ZOO_EPHEMERAL, NULL, 0);
    create(&holder, LOCK, ZOO_EPHEMERAL_SEQUENTIAL, held, sizeof held);
    create(&waiter, LOCK, ZOO_EPHEMERAL_SEQUENTIAL, waiting, sizeof waiting);
    check(strcmp(held, waiting) < 0, "%s is before %s", held, waiting);
    check_code(zoo_wexists(waiter.handle, held, watch_count, &released, &stat), ZOK, "a watch on the holder");

    for (int number = 1; number <= REPLACEMENTS; number++) {
        int before = changed.seen;
        check_code(zoo_wexists(holder.handle, SIGNAL, watch_count, &changed, &stat), ZOK, "a watch");
        replacement();
        same(&holder, holder_id);
        same(&waiter, waiter_id);
        check(changed.seen == before, "the watch is silent while nothing changes");
        check_code(zoo_set(waiter.handle, SIGNAL, "again", 5, -1), ZOK, "a write after a replacement");
        until_more(&changed.seen, before, "the watch fires");
        check_code(zoo_exists(holder.handle, MINE, 0, &stat), ZOK, "the ephemeral node");
        check(stat.ephemeralOwner == holder_id, "the ephemeral node is that of the session");
        check_code(zoo_exists(waiter.handle, held, 0, &stat), ZOK, "the node of the holder");
        check(stat.ephemeralOwner == holder_id && released.seen == 0, "the lock is still held");
    }
    check_code(zoo_delete(holder.handle, held, -1), ZOK, "the release");
    until_more(&released.seen, 0, "the lock is handed on");
    session_close(&holder);
    session_close(&waiter);
    printf("ok: a lock, an ephemeral node, a watch and both sessions kept\n");
}
