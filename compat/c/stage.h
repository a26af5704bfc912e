/* What the programs share: sessions of Apache's C client, checks, and the way to ask for a fault. */
#ifndef POLE_COMPAT_STAGE_H
#define POLE_COMPAT_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <zookeeper/zookeeper.h>

enum {
    SESSION_MS = 20000,
    /* Longer than a session: what waits for an expiry comes in time. */
    LIMIT_S = 60,
};

/* A session, and what its client was told of it. */
struct session {
    zhandle_t *handle;
    atomic_int connected;
    atomic_int breaks;
    atomic_int expired;
};

/* Begins a session, or goes on with that of an id and password, without waiting for it. The client keeps the address of `it`. */
void session_start(struct session *it, const char *servers, const clientid_t *resumed);
/* The same, and waits until it is connected. */
void session_open(struct session *it, const char *servers);
bool session_is_connected(struct session *it);
void session_close(struct session *it);

/* Counts the events of one kind that a watch reports. */
struct watch {
    int kind;
    atomic_int seen;
};
void watch_count(zhandle_t *handle, int kind, int state, const char *path, void *watch);

/* Waits until `*number` is more than `before`. */
void until_more(atomic_int *number, int before, const char *what);

/* One server, counted from 1, is killed and comes back; returns when the servers serve again. */
void fault(int server);

/* Ends the program with this sentence unless it holds. */
void check(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the program unless an operation ended with this code. */
void check_code(int code, int expected, const char *what);

void pause_ms(int ms);

/* The programs. Each returns if all that it checks holds. */
void operations(const char *servers);
void failover(const char *servers);

#endif
