/* SPDX-License-Identifier: MIT */
/* lib_outage.c - the client, the measuring, and the verdict. The n-th task of pair k has the number
 * n * OUTAGE_PAIRS_MAX + k. */
#include "lib_outage.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PACE_MS 5
#define STORED 's'
#define UNKNOWN 'u'
#define REFUSED 'r'

/* --- The client ----------------------------------------------------------------------- */

static char enqueue(quern_client *client, size_t number)
{
    char text[24];
    quern_error err = {0};
    (void)snprintf(text, sizeof text, "%zu", number);
    const quern_task task = {.type = "steady",
                             .id = text,
                             .payload = text,
                             .payload_size = strlen(text),
                             .retention_ms = 24 * 3600 * INT64_C(1000)};
    quern_status status = quern_client_enqueue(client, &task, NULL, &err);
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "client: %s\n", err.text);
    }
    return (char)(status == QUERN_OK ? STORED : status == QUERN_E_UNKNOWN ? UNKNOWN : REFUSED);
}

/* argv: URL, file, place of the pair. Until its parent sends anything. */
int outage_client(int argc, char **argv)
{
    TEST_REQUIRE(argc == 3);
    quern_client *client = NULL;
    quern_error err = {0};
    size_t place = strtoul(argv[2], NULL, 10);
    int fates = open(argv[1], O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    TEST_REQUIRE(fates >= 0);
    TEST_REQUIRE(quern_client_open(argv[0], NULL, &client, &err) == QUERN_OK);
    struct pollfd parent = {.fd = STDIN_FILENO, .events = POLLIN};
    for (size_t i = 0; poll(&parent, 1, PACE_MS) == 0; i++) {
        char fate = enqueue(client, i * OUTAGE_PAIRS_MAX + place);
        TEST_REQUIRE(write(fates, &fate, 1) == 1);
    }
    quern_client_free(client);
    (void)close(fates);
    return 0;
}

/* --- Processes ------------------------------------------------------------------------ */

/* Of user and kernel, so far. */
static int64_t cpu_ms_of(pid_t pid)
{
    char path[64];
    char text[1024] = "";
    unsigned long user = 0;
    unsigned long kernel = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    (void)close(fd);
    const char *at = strrchr(text, ')'); /* the name may have blanks */
    assert_non_null(at);
    assert_int_equal(
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel), 2);
    return (int64_t)(user + kernel) * 1000 / sysconf(_SC_CLK_TCK);
}

/* When this process first started a task after the moment; 0: it has not. */
static int64_t first_start_ms(const struct outage *outage, pid_t pid, int64_t since_ms)
{
    size_t count = 0;
    int64_t at_ms = 0;
    struct fault_record *records = fault_journal_read(outage->site, &count);
    for (size_t i = 0; i < count && at_ms == 0; i++) {
        bool fits = records[i].kind == FAULT_START && records[i].pid == pid;
        at_ms = fits && records[i].at_ms >= since_ms ? records[i].at_ms : 0;
    }
    free(records);
    return at_ms;
}

static int64_t await_start_ms(const struct outage *outage, pid_t pid, int64_t since_ms)
{
    int64_t end_ms = test_now_ms() + TEST_PATIENCE_MS;
    int64_t at_ms = 0;
    while (at_ms == 0 && test_now_ms() < end_ms) {
        test_pause_ms(10);
        at_ms = first_start_ms(outage, pid, since_ms);
    }
    assert_true(at_ms != 0);
    return at_ms;
}

void outage_add(struct outage *outage, const char *url)
{
    size_t place = outage->count++;
    struct outage_pair *pair = &outage->pairs[place];
    char place_text[8];
    assert_true(place < OUTAGE_PAIRS_MAX);
    (void)snprintf(pair->fates, sizeof pair->fates, "%s.%zu", outage->site->journal, place);
    (void)snprintf(place_text, sizeof place_text, "%zu", place);
    struct fault_site site = *outage->site;
    site.url = url;
    pair->worker = fault_spawn_worker(&site, "4", "stay");
    const char *args[] = {url, pair->fates, place_text, NULL};
    pair->client = test_spawn("client", args);
    (void)await_start_ms(outage, pair->worker.pid, 0);
}

void outage_measure(struct outage *outage)
{
    for (size_t i = 0; i < outage->count; i++) {
        outage->pairs[i].worker_cpu_ms = cpu_ms_of(outage->pairs[i].worker.pid);
        outage->pairs[i].client_cpu_ms = cpu_ms_of(outage->pairs[i].client.pid);
    }
    outage->measured_from_ms = test_now_ms();
}

int64_t outage_cpu_permille(const struct outage *outage)
{
    int64_t most = 0;
    int64_t wall_ms = test_now_ms() - outage->measured_from_ms;
    for (size_t i = 0; i < outage->count; i++) {
        const struct outage_pair *pair = &outage->pairs[i];
        int64_t worker_ms = cpu_ms_of(pair->worker.pid) - pair->worker_cpu_ms;
        int64_t client_ms = cpu_ms_of(pair->client.pid) - pair->client_cpu_ms;
        print_message("pair %zu: worker %lld ms and client %lld ms of CPU in %lld ms\n", i,
                      (long long)worker_ms, (long long)client_ms, (long long)wall_ms);
        int64_t more_ms = worker_ms > client_ms ? worker_ms : client_ms;
        most = more_ms > most ? more_ms : most;
    }
    return most * 1000 / wall_ms;
}

int64_t outage_flows_ms(const struct outage *outage, size_t pair, int64_t since_ms)
{
    int64_t at_ms = await_start_ms(outage, outage->pairs[pair].worker.pid, since_ms);
    print_message("pair %zu: its worker started a task after %lld ms\n", pair,
                  (long long)(at_ms - since_ms));
    return at_ms - since_ms;
}

/* --- The verdict ---------------------------------------------------------------------- */

struct verdict {
    char fate; /* 0: not enqueued */
    uint64_t starts;
    uint64_t ends;
    uint64_t fence;
};

struct verdicts {
    struct verdict *all;
    size_t count;
    size_t stored, unknown, refused, extra;
};

static void read_fates(const struct outage_pair *pair, size_t place, struct verdicts *verdicts)
{
    FILE *file = fopen(pair->fates, "re");
    assert_non_null(file);
    size_t number = place;
    for (int fate = fgetc(file); fate != EOF; fate = fgetc(file)) {
        assert_true(number < verdicts->count);
        verdicts->all[number].fate = (char)fate;
        verdicts->stored += fate == STORED ? 1 : 0;
        verdicts->unknown += fate == UNKNOWN ? 1 : 0;
        verdicts->refused += fate == REFUSED ? 1 : 0;
        number += OUTAGE_PAIRS_MAX;
    }
    assert_int_equal(fclose(file), 0);
}

static void take_record(struct verdicts *verdicts, const struct fault_record *record)
{
    assert_true(record->task < verdicts->count);
    struct verdict *verdict = &verdicts->all[record->task];
    if (record->kind == FAULT_END) {
        verdict->ends++;
        return;
    }
    bool has_cause = record->cause != QUERN_CAUSE_NONE && record->cause != QUERN_CAUSE_GIVEN_BACK;
    if (verdict->starts > 0 && (!has_cause || record->fence <= verdict->fence)) {
        fail_msg("task %llu: start %llu, cause %d, fence %llu", (unsigned long long)record->task,
                 (unsigned long long)verdict->starts + 1, record->cause,
                 (unsigned long long)record->fence);
    }
    verdicts->extra += verdict->starts > 0 ? 1 : 0;
    verdict->starts++;
    verdict->fence = record->fence;
}

static void read_all(const struct outage *outage, struct verdicts *verdicts)
{
    size_t count = 0;
    struct fault_record *records = fault_journal_read(outage->site, &count);
    *verdicts = (struct verdicts){.count = 1000000};
    verdicts->all = calloc(verdicts->count, sizeof *verdicts->all);
    assert_non_null(verdicts->all);
    for (size_t i = 0; i < outage->count; i++) {
        read_fates(&outage->pairs[i], i, verdicts);
    }
    for (size_t i = 0; i < count; i++) {
        take_record(verdicts, &records[i]);
    }
    free(records);
}

/* Of those that are stored. */
static bool all_have_run(void *user)
{
    struct verdicts verdicts;
    bool all = true;
    read_all(user, &verdicts);
    for (size_t i = 0; i < verdicts.count; i++) {
        all = all && (verdicts.all[i].fate != STORED || verdicts.all[i].ends > 0);
    }
    free(verdicts.all);
    test_pause_ms(100);
    return all;
}

void outage_end(struct outage *outage)
{
    struct verdicts verdicts;
    for (size_t i = 0; i < outage->count; i++) {
        test_child_send(&outage->pairs[i].client, 'q');
        assert_int_equal(test_child_join(&outage->pairs[i].client), 0);
    }
    bool all = test_until(all_have_run, outage);
    for (size_t i = 0; i < outage->count; i++) {
        test_child_send(&outage->pairs[i].worker, 'q');
        assert_int_equal(test_child_join(&outage->pairs[i].worker), 0);
    }
    read_all(outage, &verdicts);
    print_message("%zu stored, %zu unknown, %zu reported as failed, %zu extra runs\n",
                  verdicts.stored, verdicts.unknown, verdicts.refused, verdicts.extra);
    for (size_t i = 0; i < verdicts.count; i++) {
        const struct verdict *verdict = &verdicts.all[i];
        if (verdict->fate == REFUSED && verdict->starts > 0) {
            fail_msg("task %zu was reported as failed, and has run", i);
        }
        if (verdict->fate == STORED && verdict->ends == 0) {
            print_error("task %zu is lost or stuck\n", i);
        }
    }
    assert_true(all);
    free(verdicts.all);
}
