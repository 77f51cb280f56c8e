/* SPDX-License-Identifier: MIT */
/* lib_limit_read.c - makes the record that the judge of limits reads of what the handlers of a
 * fleet wrote. A run whose process was killed ended then. */
#include "lib_limit_fleet.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"

/* QN_TAKE_BACK_MS: a leased run that has not started by then is given back. */
#define LAG_NS (100 * QN_NS_PER_MS)
/* Starts are counted by a clock of whole milliseconds. */
#define COUNT_NS (2 * QN_NS_PER_MS)

struct open_run {
    pid_t pid; /* 0: it does not run */
    uint64_t fence;
    size_t end; /* the index of its last end + 1 */
};

struct reading {
    struct fleet *fleet;
    struct limit_event *events;
    size_t count;
    struct open_run *runs; /* by task */
    struct fleet_stall *stalls;
    size_t stall_count;
};

static struct fleet_loss *find_kill(struct fleet *fleet, pid_t pid)
{
    for (size_t i = 0; i < fleet->loss_count; i++) {
        if (fleet->losses[i].killed && fleet->losses[i].pid == pid) {
            return &fleet->losses[i];
        }
    }
    return NULL;
}

/* Its process did not get the processor when it started, or just before. */
static bool is_late(const struct reading *reading, const struct fault_record *record)
{
    bool late = false;
    for (size_t i = 0; i < reading->stall_count; i++) {
        const struct fleet_stall *stall = &reading->stalls[i];
        late = late || (stall->pid == record->pid && record->at_ns >= stall->span.from_ns &&
                        record->at_ns < stall->span.until_ns + LAG_NS);
    }
    return late;
}

/* The run before this start died with its process; that is when it ended. */
static void end_by_kill(struct reading *reading, const struct fault_record *record)
{
    const struct open_run *run = &reading->runs[record->task];
    struct fleet_loss *loss = find_kill(reading->fleet, run->pid);
    assert_non_null(loss);
    if (loss->until_ns == 0 || record->at_ns < loss->until_ns) {
        loss->until_ns = record->at_ns;
    }
    reading->events[reading->count++] = (struct limit_event){
        .at_ns = loss->at_ns, .change = -1, .kind = fleet_kind_of(reading->fleet, record->task)};
}

static void read_record(struct reading *reading, const struct fault_record *record)
{
    struct open_run *run = &reading->runs[record->task];
    struct limit_event event = {.at_ns = record->at_ns,
                                .kind = fleet_kind_of(reading->fleet, record->task)};
    if (record->kind == FAULT_END) {
        assert_int_equal(run->fence, record->fence);
        event.change = -1;
        event.done = true;
        run->pid = 0;
        run->end = reading->count + 1;
    } else {
        if (run->pid != 0) {
            end_by_kill(reading, record);
        } else if (run->end != 0) {
            reading->events[run->end - 1].done = false; /* it could not report its end */
        }
        event.change = 1;
        event.late = is_late(reading, record);
        if (strncmp(reading->fleet->site.url, "redis", 5) == 0) { /* its clock in microseconds */
            event.counted_ns = (int64_t)record->fence * 1000;
        }
        run->pid = record->pid;
        run->fence = record->fence;
    }
    reading->events[reading->count++] = event;
}

static struct fleet_stall *read_stalls(const struct fleet *fleet, size_t *ret_count)
{
    char path[FLEET_PATH_SIZE];
    struct stat info;
    fleet_stall_path(fleet->site.journal, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    struct fleet_stall *stalls = malloc((size_t)info.st_size + 1);
    assert_non_null(stalls);
    assert_int_equal(read(fd, stalls, (size_t)info.st_size), info.st_size);
    (void)close(fd);
    *ret_count = (size_t)info.st_size / sizeof *stalls;
    return stalls;
}

static int compare_spans(const void *a, const void *b)
{
    const struct limit_span *left = a;
    const struct limit_span *right = b;
    return left->from_ns < right->from_ns ? -1 : left->from_ns > right->from_ns;
}

/* Merges spans that overlap; returns how many there are then. */
static size_t merge_spans(struct limit_span *spans, size_t count)
{
    size_t merged = 0;
    qsort(spans, count, sizeof *spans, compare_spans);
    for (size_t i = 0; i < count; i++) {
        struct limit_span *last = merged > 0 ? &spans[merged - 1] : NULL;
        if (last != NULL && spans[i].from_ns <= last->until_ns) {
            int64_t until_ns = spans[i].until_ns;
            last->until_ns = until_ns > last->until_ns ? until_ns : last->until_ns;
        } else {
            spans[merged++] = spans[i];
        }
    }
    return merged;
}

/* When a process was dead and not recovered, stopped, or did not get the processor; the longest
 * time from a kill to its recovery. */
static void list_spans(const struct reading *reading, struct limit_record *record,
                       int64_t *ret_recovery_ns)
{
    const struct fleet *fleet = reading->fleet;
    size_t count = 0;
    struct limit_span *spans = calloc(fleet->loss_count + reading->stall_count + 1, sizeof *spans);
    assert_non_null(spans);
    *ret_recovery_ns = 0;
    for (size_t i = 0; i < fleet->loss_count; i++) {
        const struct fleet_loss *loss = &fleet->losses[i];
        int64_t size_ns = loss->until_ns - loss->at_ns;
        if (loss->killed && size_ns > *ret_recovery_ns) {
            *ret_recovery_ns = size_ns;
        }
        if (size_ns > 0) { /* else it ran nothing */
            spans[count++] = (struct limit_span){loss->at_ns, loss->until_ns};
        }
    }
    for (size_t i = 0; i < reading->stall_count; i++) {
        spans[count++] = reading->stalls[i].span;
    }
    record->excluded = spans;
    record->excluded_count = merge_spans(spans, count);
}

static bool was_stopped(const struct fleet *fleet, const struct fleet_stall *stall)
{
    bool stopped = false;
    for (size_t i = 0; i < fleet->loss_count; i++) {
        const struct fleet_loss *loss = &fleet->losses[i];
        stopped =
            stopped || (!loss->killed && loss->pid == stall->pid &&
                        loss->at_ns < stall->span.until_ns && loss->until_ns > stall->span.from_ns);
    }
    return stopped;
}

/* The longest time that a process waited for the processor without being stopped. */
static int64_t longest_stall_ns(const struct reading *reading)
{
    int64_t longest_ns = 0;
    for (size_t i = 0; i < reading->stall_count; i++) {
        const struct fleet_stall *stall = &reading->stalls[i];
        int64_t size_ns = stall->span.until_ns - stall->span.from_ns;
        if (size_ns > longest_ns && !was_stopped(reading->fleet, stall)) {
            longest_ns = size_ns;
        }
    }
    return longest_ns;
}

/* From the server's clock to ours: the start that came first to its handler came at once. A start
 * that came later than it may is late. */
static void set_count_moments(struct limit_event *events, size_t count)
{
    int64_t least_ns = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t lag_ns = events[i].at_ns - events[i].counted_ns;
        least_ns = events[i].counted_ns != 0 && lag_ns < least_ns ? lag_ns : least_ns;
    }
    for (size_t i = 0; i < count; i++) {
        if (events[i].counted_ns != 0) {
            events[i].counted_ns += least_ns;
            events[i].late = events[i].late || events[i].at_ns - events[i].counted_ns > LAG_NS;
        }
    }
}

bool fleet_use_count_moments(struct limit_record *record)
{
    bool known = false;
    for (size_t i = 0; i < record->count; i++) {
        struct limit_event *event = &record->events[i];
        if (event->counted_ns != 0) {
            event->at_ns = event->counted_ns;
            event->late = false;
            known = true;
        }
    }
    limit_judge_sort(record->events, record->count);
    record->lag_ns = COUNT_NS;
    return known;
}

struct limit_record fleet_read(struct fleet *fleet, int64_t *ret_recovery_ns)
{
    size_t records = 0;
    struct fault_record *journal = fault_journal_read(&fleet->site, &records);
    struct reading reading = {.fleet = fleet,
                              .events = calloc(2 * records + 1, sizeof *reading.events),
                              .runs = calloc(fleet->site.task_count, sizeof *reading.runs)};
    assert_non_null(reading.events);
    assert_non_null(reading.runs);
    reading.stalls = read_stalls(fleet, &reading.stall_count);
    for (size_t i = 0; i < records; i++) {
        read_record(&reading, &journal[i]);
    }
    set_count_moments(reading.events, reading.count);
    limit_judge_sort(reading.events, reading.count);
    struct limit_record record = {.events = reading.events,
                                  .count = reading.count,
                                  .puts = fleet->puts,
                                  .lag_ns = LAG_NS + longest_stall_ns(&reading)};
    list_spans(&reading, &record, ret_recovery_ns);
    free(reading.stalls);
    free(reading.runs);
    free(journal);
    return record;
}
