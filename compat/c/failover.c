/* The effects of leader changes on applications: one session at each server and one with the addresses of all, while each server
 * is killed and restarted in turn. A client whose own server dies loses its connection. All other disconnects are counted as
 * needless. */
#include "stage.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SERVERS_MAX = 9 };

/* A session with an ephemeral node, a watch that is set at the start, and a write every 10 ms. */
struct writer {
    struct session session;
    char path[32], watched[40], ephemeral[40];
    int64_t id;
    struct watch watch;
    int deaths_of_own_server;
    pthread_t thread;
    atomic_bool over;
    int written, refused, longest_gap_ms;
};

static int now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int)(now.tv_sec % 1000000 * 1000 + now.tv_nsec / 1000000);
}

static void *keep_writing(void *argument) {
    struct writer *it = argument;
    int last = now_ms();
    while (!it->over) {
        char text[16];
        int length = snprintf(text, sizeof text, "%d", it->written);
        int code = zoo_set(it->session.handle, it->path, text, length, -1);
        if (code == ZOK) {
            int gap = now_ms() - last;
            it->longest_gap_ms = gap > it->longest_gap_ms ? gap : it->longest_gap_ms;
            it->written++;
            last = now_ms();
        } else {
            check(code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT, "a write ends or its connection does, not %s", zerror(code));
            it->refused++;
        }
        pause_ms(10);
    }
    return NULL;
}

static void create(struct writer *it, const char *path, int mode) {
    check_code(zoo_create(it->session.handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, mode, NULL, 0), ZOK, path);
}

static void begin(struct writer *it, const char *servers, const char *name) {
    snprintf(it->path, sizeof it->path, "/c-on-%s", name);
    snprintf(it->watched, sizeof it->watched, "%s/watched", it->path);
    snprintf(it->ephemeral, sizeof it->ephemeral, "%s/mine", it->path);
    session_open(&it->session, servers);
    it->id = zoo_client_id(it->session.handle)->client_id;
    create(it, it->path, ZOO_PERSISTENT);
    create(it, it->watched, ZOO_PERSISTENT);
    create(it, it->ephemeral, ZOO_EPHEMERAL);
    it->watch.kind = ZOO_CHANGED_EVENT;
    struct Stat stat;
    check_code(zoo_wexists(it->session.handle, it->watched, watch_count, &it->watch, &stat), ZOK, "a watch");
    check(pthread_create(&it->thread, NULL, keep_writing, it) == 0, "there is a thread");
}

static void until_connected(struct writer *it) {
    for (int waited_ms = 0; !session_is_connected(&it->session); waited_ms += 2) {
        check(it->session.expired == 0, "the session of %s never expires", it->path);
        check(waited_ms < LIMIT_S * 1000, "%s is connected within %d s", it->path, LIMIT_S);
        pause_ms(2);
    }
}

/* Records whether the coming disconnect is expected. */
static void before_death_of(struct writer *it, const char *server) {
    until_connected(it);
    if (strcmp(zoo_get_current_server(it->session.handle), server) == 0) {
        it->deaths_of_own_server++;
    }
}

/* Checks that the session, its node and its watch still exist, and closes the session. */
static void end(struct writer *it) {
    it->over = true;
    pthread_join(it->thread, NULL);
    until_connected(it);
    check(it->watch.seen == 0, "the watch of %s is silent while nothing changes", it->path);
    check_code(zoo_set(it->session.handle, it->watched, "end", 3, -1), ZOK, "a write in the end");
    until_more(&it->watch.seen, 0, "the watch still fires");
    struct Stat stat;
    check_code(zoo_exists(it->session.handle, it->ephemeral, 0, &stat), ZOK, "the ephemeral node");
    check(stat.ephemeralOwner == it->id, "the ephemeral node of %s is that of its session", it->path);
    check(zoo_client_id(it->session.handle)->client_id == it->id, "the session of %s is the same", it->path);
    check(it->session.expired == 0, "the session of %s never expires", it->path);
    session_close(&it->session);
}

void failover(const char *servers) {
    static struct writer writers[SERVERS_MAX + 1];
    char list[512], *each[SERVERS_MAX];
    int count = 0;
    snprintf(list, sizeof list, "%s", servers);
    for (char *server = strtok(list, ","); server && count < SERVERS_MAX; server = strtok(NULL, ",")) {
        char name[8];
        snprintf(name, sizeof name, "%d", count + 1);
        begin(&writers[count], server, name);
        each[count++] = server;
    }
    begin(&writers[count], servers, "all");
    for (int server = 0; server < count; server++) {
        for (int i = 0; i <= count; i++) {
            before_death_of(&writers[i], each[server]);
        }
        fault(server + 1);
    }
    int breaks = 0, needless = 0, refused = 0, written = 0, longest_gap_ms = 0;
    for (int i = 0; i <= count; i++) {
        struct writer *it = &writers[i];
        end(it);
        breaks += it->session.breaks;
        needless += it->session.breaks - it->deaths_of_own_server;
        refused += it->refused;
        written += it->written;
        longest_gap_ms = it->longest_gap_ms > longest_gap_ms ? it->longest_gap_ms : longest_gap_ms;
    }
    printf("ok: disconnected=%d needless=%d expired=0 refused=%d written=%d longest_gap_ms=%d\n", breaks, needless, refused,
           written, longest_gap_ms);
}
