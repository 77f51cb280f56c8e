/* SPDX-License-Identifier: MIT */
/* otlp.c - makes a tracer of the options and the environment. */
#include "cli/otlp/otlp.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "cli/memory.h"
#include "cli/otlp/post.h"
#include "cli/otlp/settings.h"
#include "cli/output/logfmt.h"
#include "quern/version.h"

#define HOST_SIZE 256

struct qn_otlp {
    struct qn_otlp_settings settings;
    struct qn_post *post;
    quern_tracer *tracer;
    const struct qn_cli *cli;
    void (*on_log)(quern_log_level level, const char *line, void *user);
    void *user;
    bool has_logged_rejected;
};

/* As a message of the program: the text, and the fields behind it. */
static void print_line(const struct qn_cli *cli, const char *line)
{
    struct qn_logfmt_field message = {.name = NULL};
    if (qn_logfmt_next(&line, &message)) {
        qn_cli_message(cli, "%s%s", message.value, line);
        qn_free(message.name);
        qn_free(message.value);
    }
}

static void on_log(quern_log_level level, const char *line, void *user)
{
    const struct qn_otlp *otlp = user;
    if (otlp->on_log != NULL) {
        otlp->on_log(level, line, otlp->user);
    } else if (level >= QUERN_LOG_WARN) {
        print_line(otlp->cli, line);
    }
}

static quern_status send_document(const quern_trace_document *document, void *user,
                                  quern_error *err)
{
    struct qn_otlp *otlp = user;
    quern_status status = qn_post_send(otlp->post, document, err);
    if (qn_post_take_rejected(otlp->post) > 0 && !otlp->has_logged_rejected) {
        otlp->has_logged_rejected = true;
        on_log(QUERN_LOG_WARN, "msg=\"the collector rejects spans\"", otlp);
    }
    return status;
}

/* Unless the user has set them. */
static void add_resource(struct qn_otlp_pairs *resource, const char *name, const char *value)
{
    for (size_t i = 0; i < resource->count; i++) {
        if (strcmp(resource->items[i].name, name) == 0) {
            return;
        }
    }
    if (resource->count < QN_OTLP_PAIRS_MAX) {
        resource->items[resource->count++] = (quern_header){name, value};
    }
}

static quern_status start(struct qn_otlp *otlp, quern_error *err)
{
    char host[HOST_SIZE] = "";
    char pid[24];
    struct qn_otlp_settings *settings = &otlp->settings;
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(pid, sizeof pid, "%lld", (long long)getpid());
    /* The service is the first of these, whatever the attributes say: so OpenTelemetry has it. */
    if (settings->service != NULL) {
        for (size_t i = 0; i < settings->resource.count; i++) {
            quern_header *one = &settings->resource.items[i];
            one->value = strcmp(one->name, "service.name") == 0 ? settings->service : one->value;
        }
    }
    add_resource(&settings->resource, "host.name", host);
    add_resource(&settings->resource, "process.pid", pid);
    add_resource(&settings->resource, "telemetry.sdk.name", "quern");
    add_resource(&settings->resource, "telemetry.sdk.version", QUERN_VERSION);
    const quern_tracer_options options = {.service = settings->service,
                                          .resource = settings->resource.items,
                                          .resource_count = settings->resource.count,
                                          .sample_ppm = settings->sample_ppm,
                                          .send_timeout_ms = settings->timeout_ms,
                                          .send = send_document,
                                          .on_log = on_log,
                                          .user = otlp};
    quern_status status = qn_post_open(settings, &otlp->post, err);
    return status == QUERN_OK ? quern_tracer_new(&options, &otlp->tracer, err) : status;
}

int qn_otlp_open(const struct qn_cli *cli, size_t first,
                 void (*their_log)(quern_log_level level, const char *line, void *user), void *user,
                 struct qn_otlp **ret_otlp)
{
    quern_error err;
    const char *option = qn_args_text(&cli->args, first);
    struct qn_otlp *otlp = qn_memory_must(qn_alloc_zero(1, sizeof *otlp));
    otlp->cli = cli;
    otlp->on_log = their_log;
    otlp->user = user;
    *ret_otlp = NULL;
    quern_status status =
        qn_otlp_settings_read(option, qn_args_text(&cli->args, first + 1), &otlp->settings, &err);
    if (status == QUERN_OK && otlp->settings.ignored != NULL) {
        qn_cli_warn(cli, "spans are not sent: %s", otlp->settings.ignored);
    }
    if (status == QUERN_OK && otlp->settings.url != NULL) {
        status = start(otlp, &err);
        *ret_otlp = status == QUERN_OK ? otlp : NULL;
    }
    if (*ret_otlp == NULL) {
        qn_otlp_close(otlp);
    }
    if (status == QUERN_OK) {
        return QN_EXIT_OK;
    }
    if (option == NULL && qn_args_text(&cli->args, first + 1) == NULL) {
        /* Another program's variables, perhaps: no reason not to work. */
        qn_cli_warn(cli, "spans are not sent: %s", err.text);
        return QN_EXIT_OK;
    }
    return status == QUERN_E_INVALID ? qn_cli_usage(cli, "%s", err.text) : qn_cli_fail(cli, &err);
}

quern_tracer *qn_otlp_tracer(const struct qn_otlp *otlp)
{
    return otlp != NULL ? otlp->tracer : NULL;
}

void qn_otlp_close(struct qn_otlp *otlp)
{
    if (otlp == NULL) {
        return;
    }
    quern_tracer_free(otlp->tracer);
    qn_post_close(otlp->post);
    qn_otlp_settings_finish(&otlp->settings);
    qn_free(otlp);
}
