/* SPDX-License-Identifier: MIT */
/* metrics.c - `quern metrics`: the metrics of a broker, once to stdout, or served to Prometheus.
 *
 * The exporter asks the broker at each scrape, and remembers nothing. A broker that does not answer
 * is no end: the scrape then has quern_broker_up 0 and nothing of queues, and the next one opens
 * the broker again. It is one thread; scrapes that come together wait for each other. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/supervise/place.h"
#include "cli/supervise/server.h"
#include "metrics/exposition.h"
#include "quern/metrics.h"

#define ANSWER_S_MAX 30 /* a broker that is slow needs a part of it */

enum option { OPTION_PORT, OPTION_LISTEN, OPTION_FORMAT };
static const struct qn_option options[] = {
    [OPTION_PORT] = {"port", "N", "serve them at 127.0.0.1:N/metrics (0: a free one)",
                     QN_OPTION_COUNT, .max = UINT16_MAX},
    [OPTION_LISTEN] = {"listen", "PLACE", "the same at [ADDRESS:]PORT (*: all), or a socket",
                       QN_OPTION_TEXT},
    [OPTION_FORMAT] = {"format", "F", "what is printed: text (default) or openmetrics",
                       QN_OPTION_TEXT},
};

struct exporter {
    struct qn_cli *cli;
    const char *url;
    quern_inspector *inspector; /* NULL: to be opened */
    bool is_down;               /* as it was reported last */
};

/* --- The text ---------------------------------------------------------------------------- */

static quern_status ask_broker(struct exporter *exporter, quern_metrics_format format,
                               struct qn_buf *text, quern_error *err)
{
    const quern_metrics_options wanted = {.format = (int32_t)format, .is_partial = true};
    char *part = NULL;
    size_t size = 0;
    quern_status status = QUERN_OK;
    if (exporter->inspector == NULL) {
        status = quern_inspector_open(exporter->url, NULL, &exporter->inspector, err);
    }
    if (status == QUERN_OK) {
        status = quern_metrics_inspector(exporter->inspector, &wanted, &part, &size, err);
    }
    if (status == QUERN_OK) {
        status = qn_buf_append(text, part, size);
        quern_metrics_free(part);
    }
    return status;
}

static void report(struct exporter *exporter, bool is_down, const quern_error *err)
{
    if (is_down && !exporter->is_down) {
        qn_cli_message(exporter->cli, "broker does not answer: %s", err->text);
    } else if (!is_down && exporter->is_down) {
        qn_cli_message(exporter->cli, "broker answers again");
    }
    exporter->is_down = is_down;
}

static quern_status compose(struct exporter *exporter, quern_metrics_format format,
                            struct qn_buf *text)
{
    static const struct qn_metric up = {"quern_broker_up", "1 if the broker answered.",
                                        QN_METRIC_GAUGE, false};
    const quern_metrics_options wanted = {.format = (int32_t)format, .process = true};
    struct qn_exposition exposition;
    char *part = NULL;
    size_t size = 0;
    quern_error err = {0};
    bool is_down = ask_broker(exporter, format, text, &err) != QUERN_OK;
    report(exporter, is_down, &err);
    if (is_down) {
        quern_inspector_free(exporter->inspector);
        exporter->inspector = NULL;
    }
    qn_exposition_init(&exposition, text, format);
    qn_exposition_family(&exposition, &up);
    qn_exposition_sample(&exposition, (struct qn_metric_labels){NULL, 0}, is_down ? 0 : 1);
    quern_status status = exposition.status;
    if (status == QUERN_OK) {
        status = quern_metrics_process(&wanted, &part, &size, &err);
    }
    if (status == QUERN_OK) {
        status = qn_buf_append(text, part, size);
        quern_metrics_free(part);
    }
    return status;
}

static bool answer(const struct qn_server_request *request, struct qn_server_page *ret_page,
                   void *user)
{
    quern_metrics_format format = quern_metrics_accept(request->accept);
    struct qn_buf text;
    if (strcmp(request->path, "/metrics") != 0) {
        return false;
    }
    qn_buf_init(&text, QN_EXPOSITION_SIZE_MAX);
    bool ok = compose(user, format, &text) == QUERN_OK;
    if (!ok) { /* no memory, and no answer */
        qn_buf_finish(&text);
    }
    *ret_page = (struct qn_server_page){.body = text.data,
                                        .size = text.size,
                                        .free_body = qn_free,
                                        .content_type = quern_metrics_content_type(format),
                                        .ok = ok};
    return true;
}

/* --- The exporter -------------------------------------------------------------------------- */

/* Until a signal to end. */
static void serve(struct qn_server *server, int signal_fd)
{
    struct pollfd fds[2] = {{.fd = signal_fd, .events = POLLIN},
                            {.fd = qn_server_fd(server), .events = POLLIN}};
    do {
        (void)poll(fds, QN_COUNT_OF(fds), (int)qn_server_work(server));
    } while ((fds[0].revents & POLLIN) == 0);
}

static int open_signals(void)
{
    sigset_t set;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int listen_and_serve(struct exporter *exporter, const struct qn_place *place,
                            const char *text)
{
    char shown[QN_PLACE_TEXT_SIZE];
    int exit_code = QN_EXIT_OK;
    struct qn_server *server = NULL;
    int signal_fd = open_signals();
    int fd = qn_place_listen(place);
    if (fd < 0) {
        exit_code = errno == EADDRINUSE ? QN_EXIT_TEMPORARY : QN_EXIT_CONFIG;
        qn_cli_message(exporter->cli, "cannot listen at %s: %s", text, strerror(errno));
        goto close;
    }
    server = qn_server_new(fd, ANSWER_S_MAX, answer, exporter);
    if (server == NULL || signal_fd < 0) {
        exit_code = QN_EXIT_TEMPORARY;
        qn_cli_message(exporter->cli, "no memory or descriptor");
        goto close;
    }
    qn_place_print(fd, shown);
    qn_cli_message(exporter->cli, "metrics are served at %s", shown);
    serve(server, signal_fd);

close:
    qn_server_free(server);
    if (fd >= 0) {
        (void)close(fd);
        if (place->path[0] != '\0') {
            (void)unlink(place->path);
        }
    }
    if (signal_fd >= 0) {
        (void)close(signal_fd);
    }
    return exit_code;
}

static bool is_passing(quern_status status)
{
    return status == QUERN_E_CONNECT || status == QUERN_E_TIMEOUT || status == QUERN_E_BUSY;
}

/* A broker that is away when it starts may come; a mistake does not go. */
static int run_exporter(struct qn_cli *cli, const char *text)
{
    struct qn_place place;
    struct exporter exporter = {.cli = cli};
    quern_error err;
    if (!qn_place_parse(text, &place)) {
        return qn_cli_usage(cli, "--listen: '%s' is not [ADDRESS:]PORT or the path of a socket",
                            text);
    }
    int exit_code = qn_cli_broker_url(cli, false, &exporter.url);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    quern_status status = quern_inspector_open(exporter.url, NULL, &exporter.inspector, &err);
    if (status != QUERN_OK && (qn_cli_no_retry(cli) || !is_passing(status))) {
        return qn_cli_open_failed(cli, &err);
    }
    exit_code = listen_and_serve(&exporter, &place, text);
    quern_inspector_free(exporter.inspector);
    return exit_code;
}

/* --- Once ---------------------------------------------------------------------------------- */

static int print_once(struct qn_cli *cli, quern_metrics_format format)
{
    const quern_metrics_options wanted = {.format = (int32_t)format};
    quern_inspector *inspector = NULL;
    char *text = NULL;
    quern_error err;
    int exit_code = qn_cli_open_inspector(cli, false, &inspector);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    if (quern_metrics_inspector(inspector, &wanted, &text, NULL, &err) != QUERN_OK) {
        exit_code = qn_cli_fail(cli, &err);
    } else if (cli->json) {
        json_t *object = json_pack("{s:s,s:s}", "content_type", quern_metrics_content_type(format),
                                   "text", text);
        exit_code = qn_json_print(qn_memory_must(object));
    } else {
        (void)fputs(text, stdout);
    }
    quern_metrics_free(text);
    quern_inspector_free(inspector);
    return exit_code;
}

static int run_metrics(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    const char *format = qn_args_text(args, OPTION_FORMAT);
    const char *place = qn_args_text(args, OPTION_LISTEN);
    bool has_port = qn_args_given(args, OPTION_PORT);
    bool is_open = format != NULL && strcmp(format, "openmetrics") == 0;
    char port[24];
    if (format != NULL && !is_open && strcmp(format, "text") != 0) {
        return qn_cli_usage(cli, "--format: '%s' is not text or openmetrics", format);
    }
    if ((place != NULL) + has_port + (format != NULL) > 1) {
        return qn_cli_usage(cli, "--port, --listen and --format exclude each other");
    }
    if (has_port) {
        (void)snprintf(port, sizeof port, "%lld", (long long)qn_args_number(args, OPTION_PORT, 0));
        place = port;
    }
    return place != NULL
               ? run_exporter(cli, place)
               : print_once(cli, is_open ? QUERN_METRICS_OPENMETRICS : QUERN_METRICS_TEXT);
}

static const struct qn_verb verbs[] = {{
    .name = "",
    .operands = "",
    .summary = "print the metrics of a broker, or serve them to Prometheus",
    .about = "The metrics of a worker are at its --health-port, as /metrics.",
    .example = "  quern metrics --listen '*:9876'",
    .options = options,
    .option_count = QN_COUNT_OF(options),
    .run = run_metrics,
}};
const struct qn_noun qn_noun_metrics = {"metrics", "print or serve metrics for Prometheus", verbs,
                                        1};
