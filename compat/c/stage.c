#include "stage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void on_session(zhandle_t *handle, int kind, int state, const char *path, void *context) {
    (void)handle, (void)path;
    struct session *it = context;
    if (kind != ZOO_SESSION_EVENT) {
        return;
    }
    if (state == ZOO_CONNECTED_STATE) {
        it->connected++;
    } else if (state == ZOO_CONNECTING_STATE) {
        it->breaks++;
    } else if (state == ZOO_EXPIRED_SESSION_STATE) {
        it->expired++;
    }
}

void session_start(struct session *it, const char *servers, const clientid_t *resumed) {
    memset(it, 0, sizeof *it);
    it->handle = zookeeper_init(servers, on_session, SESSION_MS, resumed, it, ZOO_NO_LOG_CLIENTENV);
    check(it->handle != NULL, "there is a client for %s", servers);
}

void session_open(struct session *it, const char *servers) {
    session_start(it, servers, NULL);
    until_more(&it->connected, 0, "there is a session");
}

bool session_is_connected(struct session *it) {
    return zoo_state(it->handle) == ZOO_CONNECTED_STATE;
}

void session_close(struct session *it) {
    check_code(zookeeper_close(it->handle), ZOK, "the close of a session");
}

void watch_count(zhandle_t *handle, int kind, int state, const char *path, void *context) {
    (void)handle, (void)state, (void)path;
    struct watch *watch = context;
    if (kind == watch->kind) {
        watch->seen++;
    }
}

void until_more(atomic_int *number, int before, const char *what) {
    for (int waited_ms = 0; *number <= before; waited_ms += 2) {
        check(waited_ms < LIMIT_S * 1000, "%s, within %d s", what, LIMIT_S);
        pause_ms(2);
    }
}

static void ask(const char *request) {
    char answer[64] = "";
    printf("%s\n", request);
    fflush(stdout);
    check(fgets(answer, sizeof answer, stdin) && strcmp(answer, "done\n") == 0, "the fault was done, not: %s", answer);
}

void fault(int server) {
    char request[32];
    snprintf(request, sizeof request, "@fault %d", server);
    ask(request);
}

void replacement(void) {
    ask("@fault");
}

void check(bool holds, const char *format, ...) {
    if (holds) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    fputs("this does not hold: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    exit(1);
}

void check_code(int code, int expected, const char *what) {
    check(code == expected, "%s ends with %d (%s), not with %d (%s)", what, expected, zerror(expected), code, zerror(code));
}

void pause_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: %s operations|failover|holder|reconfig SERVERS\n", arguments[0]);
        return 2;
    }
    /* The checks report failures themselves. At lower levels, the client would log every lost connection. */
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    if (strcmp(arguments[1], "operations") == 0) {
        operations(arguments[2]);
    } else if (strcmp(arguments[1], "failover") == 0) {
        failover(arguments[2]);
    } else if (strcmp(arguments[1], "holder") == 0) {
        holder(arguments[2]);
    } else if (strcmp(arguments[1], "reconfig") == 0) {
        reconfig(arguments[2]);
    } else {
        fprintf(stderr, "there is no program `%s`\n", arguments[1]);
        return 2;
    }
    return 0;
}
