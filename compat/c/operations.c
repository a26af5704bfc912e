/* The operations of the C client and their expected results. */
#include "stage.h"

#include <stdio.h>
#include <string.h>

static zhandle_t *client;
static int checks;

/* Checks the result of an operation, and counts the checks. */
static void expect(int code, int expected, const char *what) {
    check_code(code, expected, what);
    checks++;
}

static void holds(bool it, const char *what) {
    check(it, "%s", what);
    checks++;
}

static int create(const char *path, const char *text, int mode) {
    return zoo_create(client, path, text, (int)strlen(text), &ZOO_OPEN_ACL_UNSAFE, mode, NULL, 0);
}

static struct Stat stat_of(const char *path) {
    struct Stat stat;
    expect(zoo_exists(client, path, 0, &stat), ZOK, path);
    return stat;
}

static bool reads(const char *path, const char *text) {
    char buffer[64];
    int length = sizeof buffer;
    expect(zoo_get(client, path, 0, buffer, &length, NULL), ZOK, path);
    return length == (int)strlen(text) && memcmp(buffer, text, (size_t)length) == 0;
}

static void nodes(void) {
    struct Stat stat;
    char path[64];
    expect(create("/c", "top", ZOO_PERSISTENT), ZOK, "a create");
    expect(create("/c", "", ZOO_PERSISTENT), ZNODEEXISTS, "a second create");
    expect(create("/none/child", "", ZOO_PERSISTENT), ZNONODE, "a create without a parent");
    holds(reads("/c", "top"), "what was created is read");

    expect(zoo_create2(client, "/c/two", "12345", 5, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, path, sizeof path, &stat), ZOK, "create2");
    holds(strcmp(path, "/c/two") == 0 && stat.czxid == stat.mzxid && stat.version == 0 && stat.dataLength == 5, "create2 tells its Stat");

    expect(create("/c/mine", "", ZOO_EPHEMERAL), ZOK, "an ephemeral node");
    holds(stat_of("/c/mine").ephemeralOwner == zoo_client_id(client)->client_id, "an ephemeral node has an owner");
    expect(create("/c/mine/child", "", ZOO_PERSISTENT), ZNOCHILDRENFOREPHEMERALS, "a child of an ephemeral node");

    for (int number = 0; number < 3; number++) {
        char expected[64];
        snprintf(expected, sizeof expected, "/c/s-%010d", number + 2);
        expect(zoo_create(client, "/c/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, path, sizeof path), ZOK, "a sequential node");
        holds(strcmp(path, expected) == 0, "sequential nodes are numbered by the children created before them");
    }

    expect(create("/c/container", "", ZOO_CONTAINER), ZOK, "a container");
    holds(stat_of("/c/container").ephemeralOwner == 0, "a container shows no owner");
    int ttl = zoo_create_ttl(client, "/c/ttl", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 60000, NULL, 0);
    expect(ttl, ZUNIMPLEMENTED, "a node with a time to live, which the configuration does not allow");

    struct String_vector children;
    expect(zoo_get_children2(client, "/c", 0, &children, &stat), ZOK, "children");
    holds(children.count == 6 && stat.numChildren == 6 && stat.cversion == 6, "children are counted");
    deallocate_String_vector(&children);
}

static void data(void) {
    struct Stat stat;
    char buffer[8];
    int length = sizeof buffer;
    expect(zoo_create(client, "/c/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0), ZOK, "a node without data");
    expect(zoo_get(client, "/c/null", 0, buffer, &length, NULL), ZOK, "no data");
    holds(length == -1, "no data is not empty data");
    expect(zoo_set2(client, "/c/two", "new", 3, 0, &stat), ZOK, "a write of the expected version");
    holds(stat.version == 1 && stat.mzxid > stat.czxid && stat.dataLength == 3, "a write tells its Stat");
    expect(zoo_set(client, "/c/two", "old", 3, 0), ZBADVERSION, "a write of an old version");
    holds(reads("/c/two", "new"), "what was written is read, and what was refused is not");
    expect(zoo_delete(client, "/c", -1), ZNOTEMPTY, "a delete of a node with children");
    expect(zoo_delete(client, "/c/two", 7), ZBADVERSION, "a delete of another version");
    expect(zoo_delete(client, "/c/null", -1), ZOK, "a delete");
    expect(zoo_exists(client, "/c/null", 0, &stat), ZNONODE, "a look at what was deleted");
}

static void multi(void) {
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    char path[64];
    struct Stat stat;
    zoo_create_op_init(&ops[0], "/c/multi", "1", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, path, sizeof path);
    zoo_set_op_init(&ops[1], "/c/multi", "2", 1, 0, &stat);
    zoo_check_op_init(&ops[2], "/c/multi", 1);
    zoo_delete_op_init(&ops[3], "/c/container", -1);
    expect(zoo_multi(client, 4, ops, results), ZOK, "a multi");
    struct Stat made = stat_of("/c/multi");
    holds(strcmp(path, "/c/multi") == 0 && stat.version == 1 && made.czxid == made.mzxid, "a multi has one zxid");

    zoo_create_op_init(&ops[0], "/c/undone", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, path, sizeof path);
    zoo_check_op_init(&ops[1], "/c/multi", 5);
    zoo_delete_op_init(&ops[2], "/c/multi", -1);
    expect(zoo_multi(client, 3, ops, results), ZBADVERSION, "a multi with a wrong check");
    holds(results[0].err == ZOK && results[1].err == ZBADVERSION && results[2].err == ZRUNTIMEINCONSISTENCY,
          "a multi that failed tells who did");
    expect(zoo_exists(client, "/c/undone", 0, &stat), ZNONODE, "nothing of a failed multi stays");
    expect(zoo_multi(client, 0, ops, results), ZOK, "an empty multi");
}

/* Each kind of change fires its watch once. A removed watch does not fire. */
static void watches(void) {
    struct Stat stat;
    struct String_vector children;
    char buffer[8];
    int length = sizeof buffer;
    struct watch created = {.kind = ZOO_CREATED_EVENT}, changed = {.kind = ZOO_CHANGED_EVENT}, child = {.kind = ZOO_CHILD_EVENT},
                 deleted = {.kind = ZOO_DELETED_EVENT}, removed = {.kind = ZOO_CHANGED_EVENT};
    expect(zoo_wexists(client, "/c/w", watch_count, &created, &stat), ZNONODE, "a watch on what does not exist");
    expect(create("/c/w", "", ZOO_PERSISTENT), ZOK, "a create");
    until_more(&created.seen, 0, "a watch tells of a create");

    expect(zoo_wget(client, "/c/w", watch_count, &changed, buffer, &length, &stat), ZOK, "a watch on data");
    expect(zoo_set(client, "/c/w", "1", 1, -1), ZOK, "a write");
    until_more(&changed.seen, 0, "a watch tells of a write");
    expect(zoo_set(client, "/c/w", "2", 1, -1), ZOK, "a second write");

    expect(zoo_wget_children2(client, "/c/w", watch_count, &child, &children, &stat), ZOK, "a watch on children");
    deallocate_String_vector(&children);
    expect(create("/c/w/x", "", ZOO_PERSISTENT), ZOK, "a create of a child");
    until_more(&child.seen, 0, "a watch tells of a child");

    expect(zoo_wexists(client, "/c/w/x", watch_count, &deleted, &stat), ZOK, "a watch on what exists");
    expect(zoo_delete(client, "/c/w/x", -1), ZOK, "a delete");
    until_more(&deleted.seen, 0, "a watch tells of a delete");

    expect(zoo_wexists(client, "/c/w", watch_count, &removed, &stat), ZOK, "a watch to be removed");
    expect(zoo_remove_watches(client, "/c/w", ZWATCHTYPE_DATA, watch_count, &removed, 0), ZOK, "the removal of a watch");
    expect(zoo_remove_watches(client, "/c/w", ZWATCHTYPE_DATA, watch_count, &removed, 0), ZNOWATCHER, "a second removal");
    expect(zoo_set(client, "/c/w", "3", 1, -1), ZOK, "a third write");
    holds(changed.seen == 1 && created.seen == 1 && child.seen == 1 && removed.seen == 0, "watches fire once, removed ones never");
}

static void on_void(int code, const void *number) {
    check_code(code, ZOK, "what was asked for");
    (*(atomic_int *)(uintptr_t)number)++;
}

static void on_string(int code, const char *text, const void *number) {
    (void)text;
    on_void(code, number);
}

/* The other session may be at another server, which must first apply everything that was written by this one. */
static void catch_up(zhandle_t *other) {
    atomic_int synced = 0;
    expect(zoo_async(other, "/c", on_string, &synced), ZOK, "a sync");
    until_more(&synced, 0, "a sync ends");
}

static void permissions(const char *servers) {
    atomic_int authenticated = 0;
    struct ACL_vector acl;
    struct Stat stat;
    char buffer[8];
    int length = sizeof buffer;
    expect(zoo_add_auth(client, "digest", "ann:secret", 10, on_void, &authenticated), ZOK, "a name and password");
    until_more(&authenticated, 0, "a name and password are taken");
    expect(zoo_create(client, "/c/own", "x", 1, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0), ZOK, "a node of one's own");
    expect(zoo_get_acl(client, "/c/own", &acl, &stat), ZOK, "its ACL");
    const struct Id *owner = &acl.data[0].id;
    holds(acl.count == 1 && acl.data[0].perms == ZOO_PERM_ALL && strcmp(owner->scheme, "digest") == 0, "an ACL gives its owner all");
    holds(strncmp(owner->id, "ann:", 4) == 0 && !strstr(owner->id, "secret"), "an ACL has the owner's name and not the password");
    deallocate_ACL_vector(&acl);

    struct session stranger;
    session_open(&stranger, servers);
    catch_up(stranger.handle);
    expect(zoo_get(stranger.handle, "/c/own", 0, buffer, &length, NULL), ZNOAUTH, "a read by a stranger");
    expect(zoo_set(stranger.handle, "/c/own", "y", 1, -1), ZNOAUTH, "a write by a stranger");
    expect(zoo_set_acl(client, "/c/own", 3, &ZOO_READ_ACL_UNSAFE), ZBADVERSION, "an ACL instead of another version");
    expect(zoo_set_acl(client, "/c/own", 0, &ZOO_READ_ACL_UNSAFE), ZOK, "an ACL by which the world may read");
    expect(zoo_set_acl(client, "/c/own", -1, &ZOO_OPEN_ACL_UNSAFE), ZNOAUTH, "an ACL by who gave up the right to change it");
    catch_up(stranger.handle);
    expect(zoo_get(stranger.handle, "/c/own", 0, buffer, &length, NULL), ZOK, "a read by the world");
    session_close(&stranger);
}

/* Pipelined requests of a session are executed and answered in order. */
enum { PIPELINED = 1000 };

static struct {
    atomic_int answered;
    int last;
} pipeline = {.last = -1};

static void on_numbered(int code, const char *path, const void *context) {
    (void)context;
    int number = -1;
    check_code(code, ZOK, "a create without waiting");
    check(sscanf(path, "/c/p/n-%d", &number) == 1 && number == pipeline.last + 1, "%s comes after number %d", path, pipeline.last);
    pipeline.last = number;
    pipeline.answered++;
}

static void order(void) {
    expect(create("/c/p", "", ZOO_PERSISTENT), ZOK, "a create");
    for (int i = 0; i < PIPELINED; i++) {
        int code = zoo_acreate(client, "/c/p/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, on_numbered, NULL);
        check_code(code, ZOK, "a create without waiting");
    }
    holds(stat_of("/c/p").numChildren == PIPELINED, "a read sees the writes that were asked for before it");
    until_more(&pipeline.answered, PIPELINED - 1, "all are answered");
}

/* Reads a node, again if the session is taken away meanwhile. */
static int exists_again(struct session *it, const char *path, struct Stat *stat) {
    for (int waited_ms = 0;; waited_ms += 2) {
        int result = zoo_exists(it->handle, path, 0, stat);
        if (result != ZCONNECTIONLOSS && result != ZSESSIONMOVED) {
            return result;
        }
        check(waited_ms < LIMIT_S * 1000, "a connection returns, within %d s", LIMIT_S);
        pause_ms(2);
    }
}

/* A session can be resumed on another connection, but only with its password. Its ephemeral nodes are deleted when it is closed. */
static void sessions(const char *servers) {
    struct session first, thief, second;
    struct Stat stat;
    struct watch deleted = {.kind = ZOO_DELETED_EVENT};
    session_open(&first, servers);
    int made = zoo_create(first.handle, "/c/e", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
    expect(made, ZOK, "an ephemeral node of another session");
    clientid_t id = *zoo_client_id(first.handle);

    clientid_t wrong = id;
    wrong.passwd[0] ^= 1;
    session_start(&thief, servers, &wrong);
    until_more(&thief.expired, 0, "a wrong password gets no session");
    session_close(&thief);
    expect(zoo_set(first.handle, "/c/e", "mine", 4, -1), ZOK, "a write by the rightful owner after that");

    /* The first client reconnects and takes the session back, then the second, and so on: about three times a second. */
    session_start(&second, servers, &id);
    until_more(&second.connected, 0, "the right password gets the session");
    expect(exists_again(&second, "/c/e", &stat), ZOK, "its ephemeral node");
    holds(zoo_client_id(second.handle)->client_id == id.client_id, "it is the same session");
    holds(stat.ephemeralOwner == id.client_id, "its ephemeral node is still its own");
    catch_up(client);
    expect(zoo_wexists(client, "/c/e", watch_count, &deleted, &stat), ZOK, "a watch on the node of another session");
    /* One of them has the session and closes it; the other one gets no reply. */
    zookeeper_close(second.handle);
    zookeeper_close(first.handle);
    until_more(&deleted.seen, 0, "the node of a closed session goes");
}

static void configuration(const char *servers) {
    static char buffer[4096];
    int length = sizeof buffer - 1;
    struct Stat stat;
    expect(zoo_getconfig(client, 0, buffer, &length, &stat), ZOK, "the configuration");
    buffer[length > 0 ? length : 0] = '\0';
    bool alone = strchr(servers, ',') == NULL;
    holds(alone ? length <= 0 : strstr(buffer, "server.1=") && strstr(buffer, "version="), "an ensemble lists its servers");
}

void operations(const char *servers) {
    struct session mine;
    session_open(&mine, servers);
    client = mine.handle;
    holds(zoo_recv_timeout(client) == SESSION_MS, "the session has the time that was asked for");
    nodes();
    data();
    multi();
    watches();
    permissions(servers);
    order();
    sessions(servers);
    configuration(servers);
    holds(mine.breaks == 0 && mine.expired == 0, "the connection never broke");
    session_close(&mine);
    printf("ok: %d answers as expected\n", checks);
}
