/* Shared by the programs: sessions of Apache's C client, checks, and requests for faults. */
#ifndef POLE_COMPAT_STAGE_H
#define POLE_COMPAT_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <zookeeper/zookeeper.h>

enum {
    SESSION_MS = 20000,
    /* Longer than a session timeout, so that an operation that waits for an expiry still succeeds. */
    LIMIT_S = 60,
};

/* A session, and counts of the session events that its client received. */
struct session {
    zhandle_t *handle;
    atomic_int connected;
    atomic_int breaks;
    atomic_int expired;
};

/* Starts a new session, or resumes one by id and password, without waiting. The client keeps the address of `it`. */
void session_start(struct session *it, const char *servers, const clientid_t *resumed);
/* Starts a new session and waits until it is connected. */
void session_open(struct session *it, const char *servers);
bool session_is_connected(struct session *it);
void session_close(struct session *it);

/* Counts the events of one kind that a watch reports. */
struct watch {
    int kind;
    atomic_int seen;
};
void watch_count(zhandle_t *handle, int kind, int state, const char *path, void *watch);

/* Waits until `*number` is greater than `before`. Fails after LIMIT_S. */
void until_more(atomic_int *number, int before, const char *what);

/* Has one server (counted from 1) killed and restarted. Returns when the servers serve again. */
void fault(int server);
/* Has all servers replaced. Returns when the new ones serve. */
void replacement(void);

/* Exits with this message unless the condition holds. */
void check(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Exits unless an operation returned this code. */
void check_code(int code, int expected, const char *what);

void pause_ms(int ms);

/* The programs. Each returns only if all its checks succeed. */
void operations(const char *servers);
void failover(const char *servers);
void holder(const char *servers);
void reconfig(const char *servers);

#endif
