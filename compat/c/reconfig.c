/* Changes of the members of an ensemble of three servers, and the errors that refuse them. */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 2048, LINE = 256, SERVERS = 3 };

/* The list of the servers as `/zookeeper/config` has it. */
struct config {
    char text[TEXT];
    long long version;
};

static struct session it;
static int checks;

static void parse(struct config *config, int length) {
    check(length > 0 && length < TEXT, "a configuration of %d bytes", length);
    config->text[length] = 0;
    const char *version = strstr(config->text, "version=");
    check(version != NULL, "a configuration has a version: %s", config->text);
    config->version = strtoll(version + strlen("version="), NULL, 16);
}

static struct config read_config(struct watch *watch) {
    struct config config;
    int length = TEXT - 1;
    check_code(zoo_wgetconfig(it.handle, watch ? watch_count : NULL, watch, config.text, &length, NULL), ZOK, "getconfig");
    parse(&config, length);
    checks++;
    return config;
}

static int change(const char *joining, const char *leaving, const char *members, int64_t version, struct config *config) {
    int length = TEXT - 1;
    int code = zoo_reconfig(it.handle, joining, leaving, members, version, config->text, &length, NULL);
    if (code == ZOK) {
        parse(config, length);
    }
    return code;
}

/* A change that has to succeed. If it costs the connection, because it moves the leader, or a server that came back is not level
 * yet, it is asked for again. */
static struct config changed(const char *joining, const char *leaving, const char *members) {
    struct config config;
    for (int waited_ms = 0;; waited_ms += 50) {
        int code = change(joining, leaving, members, -1, &config);
        if (code == ZOK) {
            checks++;
            return config;
        }
        bool passes = code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT || code == ZRECONFIGINPROGRESS || code == ZNEWCONFIGNOQUORUM;
        check(passes && waited_ms < LIMIT_S * 1000, "a change of the members, which ends with %d (%s)", code, zerror(code));
        pause_ms(50);
    }
}

static void refused(int expected, const char *joining, const char *leaving, const char *members, int64_t version, const char *what) {
    struct config config;
    check_code(change(joining, leaving, members, version, &config), expected, what);
    checks++;
}

/* Copies the line of a server, without its end. */
static void line_of(const struct config *config, int id, char *line) {
    char name[32];
    snprintf(name, sizeof name, "server.%d=", id);
    const char *begin = strstr(config->text, name);
    check(begin != NULL, "there is a %s: %s", name, config->text);
    size_t length = strcspn(begin, "\n");
    check(length < LINE, "a line of %zu bytes", length);
    memcpy(line, begin, length);
    line[length] = 0;
}

static void has(const struct config *config, const char *part, bool expected) {
    check((strstr(config->text, part) != NULL) == expected, "%s is %s: %s", part, expected ? "listed" : "not listed", config->text);
    checks++;
}

static void refusals(const struct config *config) {
    refused(ZBADVERSION, NULL, "3", NULL, config->version + 5, "a change of another version");
    refused(ZBADARGUMENTS, NULL, "2,3", NULL, -1, "a change that leaves one server");
    refused(ZBADARGUMENTS, "nonsense", NULL, NULL, -1, "a server that cannot be parsed");
    refused(ZNEWCONFIGNOQUORUM, "server.9=127.0.0.1:1:2:participant;127.0.0.1:3", "1,2", NULL, -1, "a quorum that is not there");
    struct config after = read_config(NULL);
    check(after.version == config->version, "a refused change changes nothing");
}

void reconfig(const char *servers) {
    char lines[SERVERS][LINE], observer[LINE], all[SERVERS * LINE];
    session_open(&it, servers);
    refused(ZNOAUTH, NULL, "2", NULL, -1, "a change by nobody");
    check_code(zoo_add_auth(it.handle, "digest", "super:test", 10, NULL, NULL), ZOK, "the identity of the superuser");
    struct config before = read_config(NULL);
    for (int id = 1; id <= SERVERS; id++) {
        line_of(&before, id, lines[id - 1]);
    }
    refusals(&before);

    struct watch watch = {.seen = 0};
    watch.kind = ZOO_CHANGED_EVENT;
    read_config(&watch);
    struct config without = changed(NULL, "2", NULL);
    has(&without, "server.2=", false);
    check(without.version > before.version, "a change has a later version");
    until_more(&watch.seen, 0, "the watch on the configuration fires");
    struct config seen = read_config(NULL);
    check(seen.version >= without.version, "the configuration is that of the change");

    /* As an observer, then as a participant again. */
    const char *role = strstr(lines[1], ":participant");
    check(role != NULL, "a server of the configuration is a participant: %s", lines[1]);
    snprintf(observer, sizeof observer, "%.*s:observer%s", (int)(role - lines[1]), lines[1], role + strlen(":participant"));
    struct config with = changed(observer, NULL, NULL);
    has(&with, observer, true);
    with = changed(lines[1], NULL, NULL);
    has(&with, lines[1], true);

    /* All members at once. */
    snprintf(all, sizeof all, "%s,%s", lines[0], lines[2]);
    with = changed(NULL, NULL, all);
    has(&with, "server.2=", false);
    snprintf(all, sizeof all, "%s,%s,%s", lines[2], lines[1], lines[0]);
    with = changed(NULL, NULL, all);
    for (int id = 0; id < SERVERS; id++) {
        has(&with, lines[id], true);
    }
    session_close(&it);
    printf("ok: %d checks of changes of the members\n", checks);
}
