/* SPDX-License-Identifier: MIT */
/* import.c - `quern enqueue --from`: a stream of lines becomes batches of tasks.
 *
 * Happy path: lines are read, checked and collected; each BATCH_MAX of them, or BATCH_BYTES_MAX of
 * payload, are stored at once, so memory is bounded however long the stream is.
 * Failure paths: a bad line is found before anything after it is read; the lines before it are
 * stored, and the message has their number. Tasks that exist already (same id, or an equal unique
 * task) are counted and the import continues, so that an interrupted import with ids can be
 * repeated. Any other failure of the broker ends the import, with the number of tasks that were
 * stored, and so do INT and TERM, after the lines that were read have been stored. A broker that
 * exists is opened before anything is read; a missing file is made for the first good line. */
#include "cli/enqueue/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "base/text/plural.h"
#include "base/text/str.h"
#include "cli/enqueue/lines.h"
#include "cli/enqueue/progress.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "message/id.h"
#include "task/limits.h"
#include "task/task.h"

#define BATCH_MAX 1000
#define EXISTING_SIZE 40
#define BATCH_BYTES_MAX ((size_t)8 << 20)
/* A payload at its limit, each byte written as \u00xx, and the rest of the line. */
#define LINE_SIZE_MAX (QN_PAYLOAD_SIZE_MAX * 6 + ((size_t)1 << 20))

/* Set by INT and TERM; a signal handler has no other way to report them. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

struct import {
    struct qn_cli *cli;
    const char *path; /* "" for standard input */
    quern_client *client;
    const quern_task *defaults;
    const quern_client_options *how;
    struct qn_lines lines;
    uint64_t file_size; /* 0: not known */
    struct qn_progress progress;
    struct qn_id_source ids; /* for checking a task; the client makes its own */
    struct qn_arena arena;
    struct qn_import_line batch[BATCH_MAX];
    quern_task tasks[BATCH_MAX];
    quern_enqueue_result results[BATCH_MAX];
    size_t count;
    size_t bytes;
    uint64_t stored;
    uint64_t existing; /* settled by their on_duplicate with tasks that were there */
    uint64_t duplicates;
    uint64_t conflicts;
    uint64_t refused_line; /* the first duplicate or conflict; 0: none */
};

static void drop_batch(struct import *import)
{
    for (size_t i = 0; i < import->count; i++) {
        qn_import_line_finish(&import->batch[i]);
    }
    import->count = 0;
    import->bytes = 0;
}

/* The message about a line begins with the file, as that of a compiler does. */
static const char *colon(const struct import *import)
{
    return import->path[0] != '\0' ? ": " : "";
}

static const char *noun(uint64_t count)
{
    return qn_plural(count, "task", "tasks");
}

/* ", 2 were there"; "" where none was. */
static const char *existing_text(const struct import *import, char out[EXISTING_SIZE])
{
    out[0] = '\0';
    if (import->existing > 0) {
        (void)snprintf(out, EXISTING_SIZE, ", %" PRIu64 " %s there", import->existing,
                       qn_plural(import->existing, "was", "were"));
    }
    return out;
}

/* Counts the results of the batch. Returns the index of the first failure other than "exists
 * already", or count. */
static size_t count_results(struct import *import)
{
    size_t first_failure = import->count;
    for (size_t i = 0; i < import->count; i++) {
        quern_status status = import->results[i].status;
        if (status == QUERN_OK) {
            import->stored += import->results[i].existing ? 0 : 1;
            import->existing += import->results[i].existing ? 1 : 0;
        } else if (status == QUERN_E_DUPLICATE || status == QUERN_E_CONFLICT) {
            import->duplicates += status == QUERN_E_DUPLICATE ? 1 : 0;
            import->conflicts += status == QUERN_E_CONFLICT ? 1 : 0;
            if (import->refused_line == 0) {
                import->refused_line = import->batch[i].number;
            }
        } else {
            import->stored += status == QUERN_E_NOT_REPLICATED ? 1 : 0;
            first_failure = first_failure == import->count ? i : first_failure;
        }
    }
    return first_failure;
}

/* Without "task 3: " in front, the place in the batch: the line is named instead. */
static const char *skip_place(const char *text)
{
    size_t word = strlen("task ");
    if (strncmp(text, "task ", word) != 0) {
        return text;
    }
    const char *end = text + word + strspn(text + word, "0123456789");
    return strncmp(end, ": ", 2) == 0 ? end + 2 : text;
}

static int store_batch(struct import *import)
{
    char existing[EXISTING_SIZE];
    quern_error err = {.code = QUERN_OK, .text = ""};
    if (import->count == 0) {
        return QN_EXIT_OK;
    }
    for (size_t i = 0; i < import->count; i++) {
        import->tasks[i] = import->batch[i].task;
    }
    quern_status status = quern_client_enqueue_batch(import->client, import->tasks, import->count,
                                                     import->results, &err);
    int exit_code = QN_EXIT_OK;
    size_t failed = count_results(import);
    if (failed < import->count) {
        quern_status reason = import->results[failed].status;
        qn_progress_stop(&import->progress);
        qn_cli_message(import->cli, "%s%sline %" PRIu64 ": %s (stored %" PRIu64 " %s%s)",
                       import->path, colon(import), import->batch[failed].number,
                       status == reason ? skip_place(err.text) : quern_status_name(reason),
                       import->stored, noun(import->stored), existing_text(import, existing));
        exit_code = qn_cli_exit_code(reason);
    }
    drop_batch(import);
    return exit_code;
}

/* A bad line: the lines before it are stored, then it is reported. */
static int refuse_line(struct import *import, const char *text)
{
    char existing[EXISTING_SIZE];
    uint64_t number = import->lines.line_number;
    int exit_code = store_batch(import);
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    qn_progress_stop(&import->progress);
    qn_cli_message(import->cli,
                   "%s%sline %" PRIu64 ": %s (stored %" PRIu64
                   " %s before it%s; the rest was not read)",
                   import->path, colon(import), number, text, import->stored, noun(import->stored),
                   existing_text(import, existing));
    return QN_EXIT_DATA;
}

/* A file of the broker is made for the first line that is right, and for none that is not. */
static int open_broker(struct import *import)
{
    return import->client != NULL ? QN_EXIT_OK
                                  : qn_cli_open_client(import->cli, import->how, &import->client);
}

/* Parses the line and checks the task by the library's own rules, before it joins a batch. */
static int add_line(struct import *import)
{
    quern_error err;
    struct qn_task prepared;
    struct qn_import_line *line = &import->batch[import->count];
    const struct qn_buf *text = &import->lines.line;
    if (qn_import_line_parse(qn_buf_text(text), text->size, import->defaults, line, &err) !=
        QUERN_OK) {
        return refuse_line(import, err.text);
    }
    const struct qn_task_terms terms = {.now_wall_ms = qn_clock_wall_ms(qn_clock_system()),
                                        .payload_size_max = QN_PAYLOAD_SIZE_MAX,
                                        .ids = &import->ids};
    quern_status status = qn_task_prepare(&line->task, &terms, &import->arena, &prepared, &err);
    qn_arena_reset(&import->arena);
    if (status != QUERN_OK) {
        qn_import_line_finish(line);
        return refuse_line(import, err.text);
    }
    int exit_code = open_broker(import);
    if (exit_code != QN_EXIT_OK) {
        qn_progress_stop(&import->progress);
        qn_import_line_finish(line);
        return exit_code;
    }
    line->number = import->lines.line_number;
    import->bytes += text->size;
    import->count++;
    bool full = import->count == BATCH_MAX || import->bytes >= BATCH_BYTES_MAX;
    return full ? store_batch(import) : QN_EXIT_OK;
}

static int end_interrupted(struct import *import)
{
    char existing[EXISTING_SIZE];
    int exit_code = store_batch(import);
    qn_progress_stop(&import->progress);
    if (exit_code == QN_EXIT_OK) {
        qn_cli_message(import->cli,
                       "%s%sinterrupted after line %" PRIu64 ": stored %" PRIu64
                       " %s%s; the rest was not read",
                       import->path, colon(import), import->lines.line_number, import->stored,
                       noun(import->stored), existing_text(import, existing));
        exit_code = QN_EXIT_FAILURE;
    }
    return exit_code;
}

static int read_lines(struct import *import)
{
    for (;;) {
        bool more = false;
        quern_status status = qn_lines_next(&import->lines, &more);
        if (status == QUERN_E_FULL) {
            return refuse_line(import, "too long for a task");
        }
        if (status == QUERN_E_CLOSED) {
            return end_interrupted(import);
        }
        if (status != QUERN_OK) {
            char existing[EXISTING_SIZE];
            qn_progress_stop(&import->progress);
            qn_cli_message(import->cli, "%s%sread error: %s (stored %" PRIu64 " %s%s)",
                           import->path, colon(import), strerror(errno), import->stored,
                           noun(import->stored), existing_text(import, existing));
            return QN_EXIT_FAILURE;
        }
        if (!more) {
            return store_batch(import);
        }
        if (qn_str_blank(qn_buf_text(&import->lines.line))) {
            continue;
        }
        int exit_code = add_line(import);
        if (exit_code != QN_EXIT_OK) {
            return exit_code;
        }
        qn_progress_show(&import->progress, import->stored, import->lines.byte_count,
                         import->file_size);
    }
}

static void report_skipped(const struct import *import)
{
    const char *ids = qn_plural(import->conflicts, "id already exists", "ids already exist");
    const char *equal =
        qn_plural(import->duplicates, "equal unique task exists", "equal unique tasks exist");
    if (import->duplicates == 0 || import->conflicts == 0) {
        qn_cli_message(import->cli, "skipped %" PRIu64 ": %s (first: line %" PRIu64 ")",
                       import->duplicates + import->conflicts,
                       import->duplicates == 0 ? ids : equal, import->refused_line);
    } else {
        qn_cli_message(import->cli,
                       "skipped %" PRIu64 ": %" PRIu64 " %s, %" PRIu64 " %s (first: line %" PRIu64
                       ")",
                       import->duplicates + import->conflicts, import->conflicts, ids,
                       import->duplicates, equal, import->refused_line);
    }
}

static int report_import(const struct import *import, int exit_code)
{
    if (import->cli->json) {
        (void)qn_json_print(json_pack("{s:I,s:I,s:I,s:I}", "stored", (json_int_t)import->stored,
                                      "existing", (json_int_t)import->existing, "duplicates",
                                      (json_int_t)import->duplicates, "conflicts",
                                      (json_int_t)import->conflicts));
    } else {
        char existing[EXISTING_SIZE];
        printf("%" PRIu64 " %s stored%s\n", import->stored, noun(import->stored),
               existing_text(import, existing));
    }
    if (exit_code == QN_EXIT_OK && import->refused_line != 0) {
        report_skipped(import);
        return QN_EXIT_FAILURE;
    }
    return exit_code;
}

/* Without SA_RESTART, so that a waiting read ends. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static int import_stream(struct qn_cli *cli, int fd, const char *path, const quern_task *defaults,
                         const quern_client_options *how)
{
    struct import *import = qn_memory_must(qn_alloc_zero(1, sizeof *import));
    import->cli = cli;
    import->path = path;
    import->defaults = defaults;
    import->how = how;
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        import->file_size = (uint64_t)status.st_size;
    }
    const char *url = NULL;
    int exit_code = qn_cli_broker_url(cli, false, &url);
    if (exit_code == QN_EXIT_OK && !qn_cli_will_make_file(url)) {
        exit_code = open_broker(import);
    }
    if (exit_code == QN_EXIT_OK) {
        qn_id_source_init(&import->ids);
        qn_lines_init(&import->lines, fd, LINE_SIZE_MAX);
        import->lines.stop = &interrupted;
        catch_interrupts();
        qn_progress_start(&import->progress);
        exit_code = read_lines(import);
        qn_progress_stop(&import->progress);
        exit_code = report_import(import, exit_code);
        qn_lines_finish(&import->lines);
        quern_client_free(import->client);
    }
    drop_batch(import);
    qn_arena_finish(&import->arena);
    qn_free(import);
    return exit_code;
}

int qn_import(struct qn_cli *cli, const char *path, const quern_task *defaults,
              const quern_client_options *how)
{
    if (strcmp(path, "-") == 0) {
        return import_stream(cli, STDIN_FILENO, "", defaults, how);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        qn_cli_message(cli, "%s: %s", path, strerror(errno));
        return QN_EXIT_FAILURE;
    }
    int exit_code = import_stream(cli, fd, path, defaults, how);
    (void)close(fd);
    return exit_code;
}
