/* SPDX-License-Identifier: MIT */
/* bench.c - `quern bench`: how fast is this machine, with this broker.
 *
 * Works on a temporary file of its own unless --broker is given on the command line; QUERN_BROKER
 * and the default file are left alone on purpose. All tasks go through the queue quern-bench, which
 * is removed before and after. Nothing may be open when the processes of e2e and latency are
 * forked, so the queue is removed through an inspector that is closed again. */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "cli/bench/bench.h"
#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/output/json.h"

#define TASKS_DEFAULT 100000
#define SAMPLES_DEFAULT 300
#define BATCH_DEFAULT 1000
#define PAYLOAD_DEFAULT 100
#define SIGNAL_MAX 64
#define RUNS_DEFAULT 64 /* enough to fill the batches: the handler does nothing */

/* The places of the options in all tables below. */
enum option {
    OPTION_TASKS,
    OPTION_CONCURRENCY,
    OPTION_BATCH,
    OPTION_PAYLOAD,
    OPTION_QUEUES,
    OPTION_STANDING,
    OPTION_WORKERS,
    OPTION_ACTIVE,
    OPTION_POOL,
    OPTION_DELAYED = OPTION_BATCH,
    OPTION_RATE = OPTION_PAYLOAD,
    OPTION_LATENCY_POOL = OPTION_QUEUES,
    OPTION_SIGNAL = OPTION_BATCH
};

#define TASKS_OPTION                                                                               \
    {                                                                                              \
        "tasks", "N", "how many tasks (100000)", QN_OPTION_COUNT, .min = 1, .max = 100000000       \
    }
#define PAYLOAD_OPTION                                                                             \
    {                                                                                              \
        "payload", "BYTES", "size of each payload (100)", QN_OPTION_COUNT, .min = 0,               \
                                                                           .max = 32 << 20         \
    }
#define QUEUES_OPTION                                                                              \
    {                                                                                              \
        "queues", "N", "use this many queues in turn (1)", QN_OPTION_COUNT, .min = 1, .max = 256   \
    }
#define STANDING_OPTION                                                                            \
    {                                                                                              \
        "standing", NULL, "keep the tasks that are already there", QN_OPTION_FLAG                  \
    }

static const struct qn_option enqueue_options[] = {
    [OPTION_TASKS] = TASKS_OPTION,
    [OPTION_CONCURRENCY] = {"concurrency", "N", "threads that enqueue (1)", QN_OPTION_COUNT,
                            .min = 1, .max = 1024},
    [OPTION_BATCH] = {"batch", "N", "tasks per call (1000); 1: one at a time", QN_OPTION_COUNT,
                      .min = 1, .max = 100000},
    [OPTION_PAYLOAD] = PAYLOAD_OPTION,
    [OPTION_QUEUES] = QUEUES_OPTION,
    [OPTION_STANDING] = STANDING_OPTION,
};

static const struct qn_option work_options[] = {
    [OPTION_TASKS] = TASKS_OPTION,
    [OPTION_CONCURRENCY] = {"concurrency", "N", "runs at a time (64)", QN_OPTION_COUNT, .min = 1,
                            .max = 4096},
    [OPTION_BATCH] = {"batch", "N", "tasks per enqueue call (1000)", QN_OPTION_COUNT, .min = 1,
                      .max = 100000},
    [OPTION_PAYLOAD] = PAYLOAD_OPTION,
    [OPTION_QUEUES] = QUEUES_OPTION,
    [OPTION_STANDING] = STANDING_OPTION,
    [OPTION_WORKERS] = {"workers", "N", "worker processes (1)", QN_OPTION_COUNT, .min = 1,
                        .max = 64},
    [OPTION_ACTIVE] = {"active", "N", "tasks held active all the time (0)", QN_OPTION_COUNT,
                       .min = 0, .max = 1000000},
    [OPTION_POOL] = {"pool", "POOL", "threads, prefork, or exec: run `true` (threads)",
                     QN_OPTION_TEXT},
};

static const struct qn_option latency_options[] = {
    [OPTION_TASKS] = {"tasks", "N", "how many samples (300)", QN_OPTION_COUNT, .min = 1,
                      .max = 1000000},
    [OPTION_CONCURRENCY] = {"concurrency", "N", "runs at a time (one per CPU)", QN_OPTION_COUNT,
                            .min = 1, .max = 4096},
    [OPTION_DELAYED] = {"delayed", NULL, "measure how late delayed tasks start", QN_OPTION_FLAG},
    [OPTION_RATE] = {"rate", "N", "tasks per second, instead of one when idle", QN_OPTION_COUNT,
                     .min = 1, .max = 1000000},
    [OPTION_LATENCY_POOL] = {"pool", "POOL", "threads or prefork (threads)", QN_OPTION_TEXT},
};

static const struct qn_option deaths_options[] = {
    [OPTION_TASKS] = {"tasks", "N", "how many deaths (300)", QN_OPTION_COUNT, .min = 1,
                      .max = 1000000},
    [OPTION_CONCURRENCY] = {"concurrency", "N", "children (one per CPU)", QN_OPTION_COUNT, .min = 1,
                            .max = 4096},
    [OPTION_SIGNAL] = {"signal", "N", "what the child dies of (11, SEGV)", QN_OPTION_COUNT,
                       .min = 1, .max = SIGNAL_MAX},
};

/* The pool of this option, one of the first `count`. False: there is no such one, as was said. */
static bool read_pool(const struct qn_cli *cli, enum option option, size_t count,
                      enum qn_bench_pool *ret_pool)
{
    static const char *const names[] = {
        [QN_BENCH_THREADS] = "threads", [QN_BENCH_PREFORK] = "prefork", [QN_BENCH_EXEC] = "exec"};
    const char *name = qn_args_text(&cli->args, option);
    *ret_pool = QN_BENCH_THREADS;
    for (size_t i = 0; i < count && name != NULL; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret_pool = (enum qn_bench_pool)i;
            return true;
        }
    }
    if (name != NULL) {
        (void)qn_cli_usage(cli, "--pool: %s is no pool of this", name);
    }
    return name == NULL;
}

/* --- Where --------------------------------------------------------------------------------- */

/* The broker to work on. */
struct place {
    char folder[512]; /* of the temporary file; "" when --broker was given */
    char url[560];
};

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

/* Removes the queues of this bench, and of one that was killed. */
static int remove_queues(struct qn_cli *cli, const char *url, uint32_t count)
{
    quern_inspector *inspector = NULL;
    quern_error error;
    const quern_inspector_options options = {.create = true};
    quern_status status = quern_inspector_open(url, &options, &inspector, &error);
    if (status != QUERN_OK) {
        return qn_cli_open_failed(cli, &error);
    }
    for (uint32_t i = 0; status == QUERN_OK && i < count; i++) {
        char name[QN_BENCH_NAME_SIZE];
        qn_bench_queue_name(i, name);
        status = quern_inspector_remove_queue(inspector, name, true, &error);
        status = status == QUERN_E_NOT_FOUND ? QUERN_OK : status;
    }
    quern_inspector_free(inspector);
    return status == QUERN_OK ? QN_EXIT_OK : qn_cli_fail(cli, &error);
}

static int place_open(struct qn_cli *cli, struct place *place, const struct qn_bench *bench)
{
    if (cli->args.globals[QN_GLOBAL_BROKER].text != NULL ||
        cli->args.globals[QN_GLOBAL_CONTEXT].text != NULL) {
        const char *given = NULL;
        int exit_code = qn_cli_broker_url(cli, false, &given);
        if (exit_code != QN_EXIT_OK) {
            return exit_code;
        }
        if ((size_t)snprintf(place->url, sizeof place->url, "%s", given) >= sizeof place->url) {
            return qn_cli_usage(cli, "--broker: longer than %zu bytes", sizeof place->url - 1);
        }
        return bench->standing ? QN_EXIT_OK : remove_queues(cli, place->url, bench->queues);
    }
    if (bench->standing) {
        return qn_cli_usage(cli, "--standing needs --broker, whose tasks it keeps");
    }
    const char *base = getenv("TMPDIR");
    if (base == NULL || base[0] == '\0') {
        base = "/tmp";
    }
    int size = snprintf(place->folder, sizeof place->folder, "%s/quern-bench-XXXXXX", base);
    if ((size_t)size >= sizeof place->folder || mkdtemp(place->folder) == NULL) {
        place->folder[0] = '\0';
        qn_cli_message(cli, "cannot create a directory in %s: %s", base, strerror(errno));
        return QN_EXIT_FAILURE;
    }
    (void)snprintf(place->url, sizeof place->url, "%s/bench.db", place->folder);
    return QN_EXIT_OK;
}

static int place_close(struct qn_cli *cli, const struct place *place, const struct qn_bench *bench,
                       int exit_code)
{
    if (place->folder[0] != '\0') {
        (void)nftw(place->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        return exit_code;
    }
    int removed = place->url[0] == '\0' || bench->standing
                      ? QN_EXIT_OK
                      : remove_queues(cli, place->url, bench->queues);
    return exit_code == QN_EXIT_OK ? removed : exit_code;
}

/* --- Load ------------------------------------------------------------------------------------ */

/* Figures that may be unknown: null then. */
static json_t *json_size(int64_t size)
{
    return size < 0 ? json_null() : json_integer(size);
}

static json_t *json_share(int64_t ns, const struct qn_bench *bench)
{
    return ns < 0 ? json_null() : json_real((double)ns / 1e3 / (double)bench->task_count);
}

static int report_load(const struct qn_cli *cli, const struct qn_bench *bench,
                       const struct qn_bench_load *load)
{
    double seconds = (double)load->ns / 1e9;
    double rate = (double)bench->task_count / (seconds > 0 ? seconds : 1e-9);
    if (cli->json) {
        return qn_json_print(json_pack(
            "{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "bench",
            cli->verb->name, "tasks", (json_int_t)bench->task_count, "batch",
            (json_int_t)bench->batch, "payload_bytes", (json_int_t)bench->payload_size,
            "concurrency", (json_int_t)bench->concurrency, "seconds", seconds, "tasks_per_second",
            rate, "worker_cpu_us", json_share(load->worker_cpu_ns, bench), "broker_cpu_us",
            json_share(load->broker_cpu_ns, bench), "worker_rss_bytes", json_size(load->worker_rss),
            "child_cpu_us", json_share(load->child_cpu_ns, bench), "child_rss_bytes",
            json_size(load->child_rss), "zygote_rss_bytes", json_size(load->zygote_rss)));
    }
    printf("%s: %.0f tasks/s (%zu %s of %zu %s in %.3f s, enqueued by %zu)\n", cli->verb->name,
           rate, bench->task_count, qn_plural(bench->task_count, "task", "tasks"),
           bench->payload_size, qn_plural(bench->payload_size, "byte", "bytes"), seconds,
           bench->batch);
    return QN_EXIT_OK;
}

/* runs: at a time, where the option does not say it; children and commands are as many as there are
 * CPUs. */
static int run_load(struct qn_cli *cli, uint32_t runs,
                    quern_status (*measure)(const struct qn_bench *, struct qn_bench_load *,
                                            quern_error *))
{
    const struct qn_args *args = &cli->args;
    struct place place = {0};
    enum qn_bench_pool pool = QN_BENCH_THREADS;
    bool works = measure != qn_bench_enqueue;
    if (works && !read_pool(cli, OPTION_POOL, QN_BENCH_EXEC + 1, &pool)) {
        return QN_EXIT_USAGE;
    }
    const struct qn_bench bench = {
        .url = place.url,
        .task_count = (size_t)qn_args_number(args, OPTION_TASKS, TASKS_DEFAULT),
        .batch = (size_t)qn_args_number(args, OPTION_BATCH, BATCH_DEFAULT),
        .payload_size = (size_t)qn_args_number(args, OPTION_PAYLOAD, PAYLOAD_DEFAULT),
        .concurrency =
            (uint32_t)qn_args_number(args, OPTION_CONCURRENCY, pool == QN_BENCH_THREADS ? runs : 0),
        .queues = (uint32_t)qn_args_number(args, OPTION_QUEUES, 1),
        .standing = qn_args_given(args, OPTION_STANDING),
        .workers = works ? (uint32_t)qn_args_number(args, OPTION_WORKERS, 1) : 0,
        .active = works ? (size_t)qn_args_number(args, OPTION_ACTIVE, 0) : 0,
        .pool = pool,
    };
    int exit_code = place_open(cli, &place, &bench);
    if (exit_code == QN_EXIT_OK) {
        quern_error error = {0};
        struct qn_bench_load load = {0};
        exit_code = measure(&bench, &load, &error) == QUERN_OK ? report_load(cli, &bench, &load)
                                                               : qn_cli_fail(cli, &error);
    }
    return place_close(cli, &place, &bench, exit_code);
}

static int run_enqueue(struct qn_cli *cli)
{
    return run_load(cli, 1, qn_bench_enqueue);
}

static int run_drain(struct qn_cli *cli)
{
    return run_load(cli, RUNS_DEFAULT, qn_bench_drain);
}

static int run_e2e(struct qn_cli *cli)
{
    return run_load(cli, RUNS_DEFAULT, qn_bench_e2e);
}

/* --- Latency -----------------------------------------------------------------------------------
 */

/* The smallest sample that `percent` of them do not exceed, in ms. */
static double percentile_ms(const int64_t *samples, size_t count, size_t percent)
{
    size_t rank = (count * percent + 99) / 100;
    return (double)samples[rank == 0 ? 0 : rank - 1] / 1e6;
}

static int report_latency(const struct qn_cli *cli, const struct qn_bench *bench,
                          const int64_t *samples)
{
    size_t count = bench->task_count;
    const char *what = bench->delayed ? "delayed" : "latency";
    double min = (double)samples[0] / 1e6;
    double p50 = percentile_ms(samples, count, 50);
    double p90 = percentile_ms(samples, count, 90);
    double p99 = percentile_ms(samples, count, 99);
    double max = (double)samples[count - 1] / 1e6;
    if (cli->json) {
        return qn_json_print(json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "bench", what,
                                       "samples", (json_int_t)count, "min_ms", min, "p50_ms", p50,
                                       "p90_ms", p90, "p99_ms", p99, "max_ms", max));
    }
    printf("%s: p50 %.3f ms, p90 %.3f ms, p99 %.3f ms, max %.3f ms (%zu %s, min %.3f ms)\n", what,
           p50, p90, p99, max, count, qn_plural(count, "sample", "samples"), min);
    return QN_EXIT_OK;
}

static int run_latency(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    struct place place = {0};
    enum qn_bench_pool pool = QN_BENCH_THREADS;
    if (!read_pool(cli, OPTION_LATENCY_POOL, QN_BENCH_PREFORK + 1, &pool)) {
        return QN_EXIT_USAGE;
    }
    const struct qn_bench bench = {
        .url = place.url,
        .pool = pool,
        .task_count = (size_t)qn_args_number(args, OPTION_TASKS, SAMPLES_DEFAULT),
        .concurrency = (uint32_t)qn_args_number(args, OPTION_CONCURRENCY, 0),
        .delayed = qn_args_given(args, OPTION_DELAYED),
        .rate = (size_t)qn_args_number(args, OPTION_RATE, 0),
        .queues = 1,
    };
    if (bench.delayed && bench.rate > 0) {
        return qn_cli_usage(cli, "--delayed and --rate exclude each other");
    }
    int64_t *samples = qn_memory_must(qn_alloc_zero(bench.task_count, sizeof *samples));
    int exit_code = place_open(cli, &place, &bench);
    if (exit_code == QN_EXIT_OK) {
        quern_error error = {0};
        exit_code = qn_bench_latency(&bench, samples, &error) == QUERN_OK
                        ? report_latency(cli, &bench, samples)
                        : qn_cli_fail(cli, &error);
    }
    qn_free(samples);
    return place_close(cli, &place, &bench, exit_code);
}

/* --- Deaths ----------------------------------------------------------------------------------
 */

static int report_deaths(const struct qn_cli *cli, size_t count, int64_t *pending, int64_t *again)
{
    qsort(pending, count, sizeof *pending, qn_bench_compare);
    qsort(again, count, sizeof *again, qn_bench_compare);
    double p50 = percentile_ms(pending, count, 50);
    double p99 = percentile_ms(pending, count, 99);
    double max = percentile_ms(pending, count, 100);
    double again_p50 = percentile_ms(again, count, 50);
    double again_p99 = percentile_ms(again, count, 99);
    if (cli->json) {
        return qn_json_print(json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "bench", "deaths",
                                       "samples", (json_int_t)count, "p50_ms", p50, "p99_ms", p99,
                                       "max_ms", max, "again_p50_ms", again_p50, "again_p99_ms",
                                       again_p99));
    }
    printf("deaths: pending after p50 %.3f ms, p99 %.3f ms, max %.3f ms, run again after p50 %.3f "
           "ms, p99 %.3f ms (%zu %s)\n",
           p50, p99, max, again_p50, again_p99, count, qn_plural(count, "sample", "samples"));
    return QN_EXIT_OK;
}

static int run_deaths(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    struct place place = {0};
    const struct qn_bench bench = {
        .url = place.url,
        .pool = QN_BENCH_PREFORK,
        .task_count = (size_t)qn_args_number(args, OPTION_TASKS, SAMPLES_DEFAULT),
        .concurrency = (uint32_t)qn_args_number(args, OPTION_CONCURRENCY, 0),
        .signal = (int)qn_args_number(args, OPTION_SIGNAL, SIGSEGV),
        .queues = 1,
    };
    size_t count = bench.task_count;
    int64_t *pending = qn_memory_must(qn_alloc_zero(count, sizeof *pending));
    int64_t *again = qn_memory_must(qn_alloc_zero(count, sizeof *again));
    int exit_code = place_open(cli, &place, &bench);
    if (exit_code == QN_EXIT_OK) {
        quern_error error = {0};
        exit_code = qn_bench_deaths(&bench, pending, again, &error) == QUERN_OK
                        ? report_deaths(cli, count, pending, again)
                        : qn_cli_fail(cli, &error);
    }
    qn_free(pending);
    qn_free(again);
    return place_close(cli, &place, &bench, exit_code);
}

/* --- The table ----------------------------------------------------------------------------------
 */

static const char about_place[] =
    "Works on a temporary file, or on --broker, in the queue quern-bench, which is\n"
    "removed before and after. QUERN_BROKER is not used.";

static const struct qn_verb verbs[] = {
    {
        .name = "enqueue",
        .operands = "",
        .summary = "tasks stored per second",
        .about = about_place,
        .example = "  quern bench enqueue --batch 1",
        .options = enqueue_options,
        .option_count = QN_COUNT_OF(enqueue_options),
        .run = run_enqueue,
    },
    {
        .name = "drain",
        .operands = "",
        .summary = "tasks run per second, from a queue that was filled before",
        .about = about_place,
        .example = "  quern bench drain --tasks 200000 --concurrency 4",
        .options = work_options,
        .option_count = QN_COUNT_OF(work_options),
        .run = run_drain,
    },
    {
        .name = "e2e",
        .operands = "",
        .summary = "tasks per second from a client process through a worker process",
        .about = about_place,
        .example = "  quern bench e2e --batch 1 --tasks 20000",
        .options = work_options,
        .option_count = QN_COUNT_OF(work_options),
        .run = run_e2e,
    },
    {
        .name = "latency",
        .operands = "",
        .summary = "time from enqueue to the start of the handler in an idle worker",
        .about = about_place,
        .example =
            "  quern bench latency --delayed\n  quern bench latency --rate 1000 --tasks 10000",
        .options = latency_options,
        .option_count = QN_COUNT_OF(latency_options),
        .run = run_latency,
    },
    {
        .name = "deaths",
        .operands = "",
        .summary = "time from a prefork child's death until its task is pending again",
        .about = about_place,
        .example = "  quern bench deaths --signal 9",
        .options = deaths_options,
        .option_count = QN_COUNT_OF(deaths_options),
        .run = run_deaths,
    },
};

const struct qn_noun qn_noun_bench = {
    .name = "bench",
    .summary = "measure this machine and broker",
    .verbs = verbs,
    .verb_count = QN_COUNT_OF(verbs),
};
