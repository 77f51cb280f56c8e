/* SPDX-License-Identifier: MIT */
/* server_info.c - the server's version, its memory, and its durability class.
 *
 * All comes from INFO, and from CONFIG GET where the user may (a worker need not): without it the
 * durability class is the lower one that is possible, and the text names the unknown setting. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"
#include "broker/redis/inspect/inspect.h"
#include "quern/version.h"

#define VALUE_SIZE 128

/* Its answers, copied, as the caller's function runs when the channel is free again. */
struct answers {
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

static quern_status ask_server(struct qn_redis *self, struct answers *answers, quern_error *err)
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
        answers->info = qn_str_dup(answer == QUERN_OK ? qn_reply_text(reply) : "");
        if (answers->info == NULL) {
            status = qn_error_nomem(err);
        }
        (void)read_setting(&pipeline, 1, answers->appendfsync, sizeof answers->appendfsync);
        answers->save_known = read_setting(&pipeline, 2, answers->save, sizeof answers->save);
    }
    qn_pipeline_end(&pipeline);
    return status;
}

/* The value of a line of INFO; false and "" when there is no such line. */
static bool find_line(const struct answers *answers, const char *name, char out[VALUE_SIZE])
{
    size_t size = strlen(name);
    out[0] = '\0';
    for (const char *line = answers->info; line != NULL;) {
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

/* --- Reporting ---------------------------------------------------------------------- */

static const char *durability(const struct answers *answers)
{
    char aof[VALUE_SIZE];
    if (!find_line(answers, "aof_enabled", aof)) {
        return "not known: this user may not use INFO";
    }
    if (aof[0] == '1') {
        if (strcmp(answers->appendfsync, "always") == 0) {
            return "D2: survives power loss";
        }
        if (strcmp(answers->appendfsync, "no") == 0) {
            return "D1: survives a restart; data that the system has not written is lost on power "
                   "loss";
        }
        /* Redis answers before it writes while its last fsync is in progress, so this holds for a
         * server that is killed, too. */
        return answers->appendfsync[0] != '\0'
                   ? "D1: survives a restart; up to 2 s of acknowledged tasks lost on power loss or"
                     " when the server is killed"
                   : "D1: survives a restart, perhaps more: this user may not read appendfsync";
    }
    if (answers->save_known && answers->save[0] == '\0') {
        return "D0: nothing survives a restart of the server (appendonly no, no snapshots)";
    }
    return "D0: a crash loses everything since the last snapshot (appendonly no)";
}

/* Only where all replicas confirm can any of them be promoted without a loss. */
static void report_durability(const struct qn_redis *self, const struct sink *sink,
                              const struct answers *answers)
{
    char text[4 * VALUE_SIZE];
    char replicas[VALUE_SIZE] = "?";
    if (self->wait_count == 0) {
        sink->on_fact("durability", durability(answers), sink->user);
        return;
    }
    (void)find_line(answers, "connected_slaves", replicas);
    (void)snprintf(text, sizeof text,
                   "D3: %" PRIu32 " of %s replicas confirm each stored task; alone %s",
                   self->wait_count, replicas, durability(answers));
    sink->on_fact("durability", text, sink->user);
}

static void report_line(const struct sink *sink, const struct answers *answers, const char *name,
                        const char *line)
{
    char value[VALUE_SIZE];
    if (find_line(answers, line, value)) {
        sink->on_fact(name, value, sink->user);
    }
}

static void report_version(const struct sink *sink, const struct answers *answers)
{
    char value[VALUE_SIZE];
    char text[VALUE_SIZE + 16];
    if (find_line(answers, "valkey_version", value)) {
        (void)snprintf(text, sizeof text, "valkey %s", value);
        sink->on_fact("redis_version", text, sink->user);
    } else {
        report_line(sink, answers, "redis_version", "redis_version");
    }
}

/* The CPU time of the server so far, in seconds, which shows the cost of tasks. It is that of the
 * thread that runs commands, if the server counts it (7.0): that thread is the limit, not those for
 * input and output and for the disk. */
static void report_cpu(const struct sink *sink, const struct answers *answers)
{
    char user[VALUE_SIZE];
    char system[VALUE_SIZE];
    char text[VALUE_SIZE];
    if ((find_line(answers, "used_cpu_user_main_thread", user) &&
         find_line(answers, "used_cpu_sys_main_thread", system)) ||
        (find_line(answers, "used_cpu_user", user) && find_line(answers, "used_cpu_sys", system))) {
        (void)snprintf(text, sizeof text, "%.6f", strtod(user, NULL) + strtod(system, NULL));
        sink->on_fact("cpu_s", text, sink->user);
    }
}

static void report_warnings(const struct sink *sink, const struct answers *answers)
{
    char memory[VALUE_SIZE];
    char value[VALUE_SIZE];
    char text[2 * VALUE_SIZE];
    bool limited = find_line(answers, "maxmemory", memory) && strcmp(memory, "0") != 0;
    if (limited && find_line(answers, "maxmemory_policy", value) &&
        strcmp(value, "noeviction") != 0) {
        (void)snprintf(text, sizeof text,
                       "maxmemory-policy %s lets the server evict tasks and locks; "
                       "set it to noeviction",
                       value);
        sink->on_fact("warning_memory", text, sink->user);
    }
    if (find_line(answers, "aof_last_write_status", value) && strcmp(value, "ok") != 0) {
        sink->on_fact("warning_aof", "the server cannot write its AOF", sink->user);
    }
    if (find_line(answers, "role", value) && strcmp(value, "master") != 0) {
        sink->on_fact("warning_role", "this is a replica: nothing can be stored here", sink->user);
    }
}

static void report_all(struct qn_redis *self, const struct sink *sink,
                       const struct answers *answers)
{
    struct qn_endpoint *endpoint = qn_failover_current(&self->failover).endpoint;
    char db[24];
    (void)snprintf(db, sizeof db, "%" PRId64, endpoint->db);
    sink->on_fact("broker", "redis", sink->user);
    sink->on_fact("version", QUERN_VERSION, sink->user);
    sink->on_fact("address", endpoint->peer.address, sink->user);
    sink->on_fact("db", db, sink->user);
    qn_endpoint_unref(endpoint);
    report_durability(self, sink, answers);
    report_version(sink, answers);
    report_line(sink, answers, "role", "role");
    report_line(sink, answers, "replicas", "connected_slaves");
    report_line(sink, answers, "clients", "connected_clients");
    report_line(sink, answers, "memory_used", "used_memory");
    report_line(sink, answers, "memory_peak", "used_memory_peak");
    report_line(sink, answers, "memory_max", "maxmemory");
    report_line(sink, answers, "memory_policy", "maxmemory_policy");
    report_line(sink, answers, "uptime_s", "uptime_in_seconds");
    report_cpu(sink, answers);
    report_warnings(sink, answers);
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
static void report_wake_up(struct qn_redis *self, const struct sink *sink)
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
                       "idle workers poll every 50 to 100 ms; to be woken they need +client|id "
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
    struct answers answers = {.info = NULL};
    quern_status status = ask_server(self, &answers, err);
    if (status == QUERN_OK) {
        report_all(self, &sink, &answers);
        report_wake_up(self, &sink);
    }
    qn_free(answers.info);
    return status;
}
