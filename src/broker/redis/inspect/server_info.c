/* SPDX-License-Identifier: MIT */
/* server_info.c - what the server is, how much memory it has, and how safe tasks are with it.
 *
 * All comes from INFO, and from CONFIG GET where the user may (a worker need not): without it the
 * class of durability is the lower one that is possible, and the text says what is not known. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "broker/redis/inspect/inspect.h"
#include "quern/version.h"

#define VALUE_SIZE 128

/* What the server said, copied, as the caller's function runs without the channel. */
struct said {
    char *info;            /* "name:value" in lines; "" when the user may not ask */
    char appendfsync[16];  /* "" when the user may not ask */
    char save[VALUE_SIZE]; /* "" when there are no snapshots, or the user may not ask */
    bool save_known;
};

struct sink {
    void (*on_fact)(const char *name, const char *text, void *user);
    void *user;
};

/* --- Asking ------------------------------------------------------------------------- */

/* The second of a pair of name and value. False: the server refused. */
static bool read_setting(const struct qn_pipeline *pipeline, size_t index, char *out,
                         size_t out_size)
{
    const struct qn_reply *reply = NULL;
    quern_error refused;
    if (qn_pipeline_reply(pipeline, index, &reply, &refused) != QUERN_OK) {
        return false;
    }
    (void)snprintf(out, out_size, "%s", qn_reply_text(qn_reply_at(reply, 1)));
    return true;
}

static void ask_setting(struct qn_pipeline *pipeline, const char *name)
{
    qn_pipeline_command(pipeline, "CONFIG");
    qn_pipeline_limit(pipeline, QN_REPLY_BRIEF_MAX);
    qn_pipeline_text(pipeline, "GET");
    qn_pipeline_text(pipeline, name);
}

static quern_status ask(struct qn_redis *self, struct said *said, quern_error *err)
{
    struct qn_pipeline pipeline;
    qn_redis_begin(&pipeline, self, QN_CHANNEL_REST, QN_PIPELINE_READS);
    qn_pipeline_command(&pipeline, "INFO");
    qn_pipeline_limit(&pipeline, QN_REPLY_BRIEF_MAX);
    ask_setting(&pipeline, "appendfsync");
    ask_setting(&pipeline, "save");
    quern_status status = qn_pipeline_run(&pipeline, err);
    if (status == QUERN_OK) {
        const struct qn_reply *reply = NULL;
        quern_error refused;
        quern_status answer = qn_pipeline_reply(&pipeline, 0, &reply, &refused);
        said->info = qn_strdup(answer == QUERN_OK ? qn_reply_text(reply) : "");
        if (said->info == NULL) {
            status = qn_error_nomem(err);
        }
        (void)read_setting(&pipeline, 1, said->appendfsync, sizeof said->appendfsync);
        said->save_known = read_setting(&pipeline, 2, said->save, sizeof said->save);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* The value of a line of INFO; false and "" when there is no such line. */
static bool find(const struct said *said, const char *name, char out[VALUE_SIZE])
{
    size_t size = strlen(name);
    out[0] = '\0';
    for (const char *line = said->info; line != NULL;) {
        if (strncmp(line, name, size) == 0 && line[size] == ':') {
            const char *value = line + size + 1;
            (void)snprintf(out, VALUE_SIZE, "%.*s", (int)strcspn(value, "\r\n"), value);
            return true;
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return false;
}

/* --- Telling ------------------------------------------------------------------------ */

static const char *durability(const struct said *said)
{
    char aof[VALUE_SIZE];
    if (!find(said, "aof_enabled", aof)) {
        return "not known: this user may not use INFO";
    }
    if (aof[0] == '1') {
        if (strcmp(said->appendfsync, "always") == 0) {
            return "D2: survives power loss";
        }
        if (strcmp(said->appendfsync, "no") == 0) {
            return "D1: survives a restart; what the system has not written is lost on power loss";
        }
        /* Redis answers before it writes while its last fsync is under way, so this holds for a
         * server that is killed, too. */
        return said->appendfsync[0] != '\0'
                   ? "D1: survives a restart; up to 2 s of acknowledged tasks lost on power loss or"
                     " when the server is killed"
                   : "D1: survives a restart; whether more, this user may not see (appendfsync)";
    }
    if (said->save_known && said->save[0] == '\0') {
        return "D0: nothing survives a restart of the server (appendonly no, no snapshots)";
    }
    return "D0: a crash loses what came after the last snapshot (appendonly no)";
}

static void tell(const struct sink *sink, const struct said *said, const char *name,
                 const char *line)
{
    char value[VALUE_SIZE];
    if (find(said, line, value)) {
        sink->on_fact(name, value, sink->user);
    }
}

static void tell_version(const struct sink *sink, const struct said *said)
{
    char value[VALUE_SIZE];
    char text[VALUE_SIZE + 16];
    if (find(said, "valkey_version", value)) {
        (void)snprintf(text, sizeof text, "valkey %s", value);
        sink->on_fact("redis_version", text, sink->user);
    } else {
        tell(sink, said, "redis_version", "redis_version");
    }
}

/* What the server's processor did so far, in seconds: what tasks cost it can be seen from that. Of
 * the thread that runs commands, where the server tells it (7.0): that one is the limit, whatever
 * those for input and output and for the disk do. */
static void tell_cpu(const struct sink *sink, const struct said *said)
{
    char user[VALUE_SIZE];
    char system[VALUE_SIZE];
    char text[VALUE_SIZE];
    if ((find(said, "used_cpu_user_main_thread", user) &&
         find(said, "used_cpu_sys_main_thread", system)) ||
        (find(said, "used_cpu_user", user) && find(said, "used_cpu_sys", system))) {
        (void)snprintf(text, sizeof text, "%.6f", strtod(user, NULL) + strtod(system, NULL));
        sink->on_fact("cpu_s", text, sink->user);
    }
}

static void tell_warnings(const struct sink *sink, const struct said *said)
{
    char memory[VALUE_SIZE];
    char value[VALUE_SIZE];
    char text[2 * VALUE_SIZE];
    bool limited = find(said, "maxmemory", memory) && strcmp(memory, "0") != 0;
    if (limited && find(said, "maxmemory_policy", value) && strcmp(value, "noeviction") != 0) {
        (void)snprintf(text, sizeof text,
                       "maxmemory-policy %s lets the server throw tasks and locks away; "
                       "set it to noeviction",
                       value);
        sink->on_fact("warning_memory", text, sink->user);
    }
    if (find(said, "aof_last_write_status", value) && strcmp(value, "ok") != 0) {
        sink->on_fact("warning_aof", "the server cannot write its AOF", sink->user);
    }
    if (find(said, "role", value) && strcmp(value, "master") != 0) {
        sink->on_fact("warning_role", "this is a replica: nothing can be stored here", sink->user);
    }
}

static void tell_all(struct qn_redis *self, const struct sink *sink, const struct said *said)
{
    char db[24];
    (void)snprintf(db, sizeof db, "%" PRId64, self->endpoint.db);
    sink->on_fact("broker", "redis", sink->user);
    sink->on_fact("version", QUERN_VERSION, sink->user);
    sink->on_fact("address", self->endpoint.peer.address, sink->user);
    sink->on_fact("db", db, sink->user);
    sink->on_fact("durability", durability(said), sink->user);
    tell_version(sink, said);
    tell(sink, said, "role", "role");
    tell(sink, said, "replicas", "connected_slaves");
    tell(sink, said, "clients", "connected_clients");
    tell(sink, said, "memory_used", "used_memory");
    tell(sink, said, "memory_peak", "used_memory_peak");
    tell(sink, said, "memory_max", "maxmemory");
    tell(sink, said, "memory_policy", "maxmemory_policy");
    tell(sink, said, "uptime_s", "uptime_in_seconds");
    tell_cpu(sink, said);
    tell_warnings(sink, said);
}

quern_status qn_server_info_refusal(struct qn_redis *self, char refusal[QN_REFUSAL_SIZE],
                                    quern_error *err)
{
    bool work;
    int64_t next_due_at_ms;
    quern_status status =
        qn_redis_arm(&self->base, (struct qn_names){0}, &work, &next_due_at_ms, err);
    if (status == QUERN_OK) {
        qn_redis_listener_refusal(&self->listener, refusal);
    }
    return status;
}

/* Whether an idle worker of this user is woken by new tasks. */
static void tell_wake_up(struct qn_redis *self, const struct sink *sink)
{
    char refusal[QN_REFUSAL_SIZE];
    char text[QN_REFUSAL_SIZE + 128];
    quern_error ignored;
    if (qn_server_info_refusal(self, refusal, &ignored) != QUERN_OK) {
        return; /* not known */
    }
    sink->on_fact("wake_up", refusal[0] == '\0' ? "tracking" : "polling", sink->user);
    if (refusal[0] != '\0') {
        (void)snprintf(text, sizeof text,
                       "an idle worker has to ask every 50 to 100 ms; it needs +client|id "
                       "+client|tracking &__redis__:invalidate (%s)",
                       refusal);
        sink->on_fact("warning_wake_up", text, sink->user);
    }
}

quern_status qn_redis_server_info(struct qn_broker *broker,
                                  void (*on_fact)(const char *name, const char *text, void *user),
                                  void *user, quern_error *err)
{
    struct qn_redis *self = qn_redis_of(broker);
    const struct sink sink = {.on_fact = on_fact, .user = user};
    struct said said = {.info = NULL};
    quern_status status = ask(self, &said, err);
    if (status == QUERN_OK) {
        tell_all(self, &sink, &said);
        tell_wake_up(self, &sink);
    }
    qn_free(said.info);
    return status;
}
