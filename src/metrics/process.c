/* SPDX-License-Identifier: MIT */
/* process.c - reads /proc/self; see process.h. */
#include "metrics/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "quern/version.h"

#define NS_PER_S INT64_C(1000000000)
#define STAT_SIZE 2048

/* Fields of /proc/self/stat, as proc(5) numbers them; the first behind the name is 3. */
enum {
    FIELD_FIRST = 3,
    FIELD_UTIME = 14,
    FIELD_STIME = 15,
    FIELD_START = 22,
    FIELD_VSIZE = 23,
    FIELD_RSS = 24,
    FIELD_COUNT = 25
};

static bool read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    size_t used = fread(text, 1, size - 1, file);
    text[used] = '\0';
    (void)fclose(file);
    return used > 0;
}

/* The name of the program may hold blanks and brackets: fields begin behind the last bracket. */
static bool read_stat(int64_t fields[FIELD_COUNT])
{
    char text[STAT_SIZE];
    if (!read_text("/proc/self/stat", text, sizeof text)) {
        return false;
    }
    const char *at = strrchr(text, ')');
    int field = FIELD_FIRST - 1;
    while (at != NULL && field < FIELD_COUNT) {
        fields[field++] = strtoll(at + 1, NULL, 10);
        at = strchr(at + 1, ' ');
    }
    return field == FIELD_COUNT;
}

/* When the system started, in seconds since the epoch; 0: not known. */
static int64_t read_boot_s(void)
{
    int64_t boot_s = 0;
    char line[256];
    FILE *file = fopen("/proc/stat", "re");
    while (file != NULL && boot_s == 0 && fgets(line, sizeof line, file) != NULL) {
        boot_s = strncmp(line, "btime ", 6) == 0 ? strtoll(line + 6, NULL, 10) : 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return boot_s;
}

/* Open descriptors, without the one that lists them; -1: not known. */
static int64_t count_fds(void)
{
    int64_t count = -1;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        return -1;
    }
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count - 2; /* . and ..; the one that lists them was left out above */
}

static void put(struct qn_exposition *exposition, const char *name, const char *help,
                enum qn_metric_kind kind, int64_t value)
{
    bool is_time = strstr(name, "_seconds") != NULL;
    const struct qn_metric metric = {name, help, kind, is_time};
    qn_exposition_family(exposition, &metric);
    qn_exposition_sample(exposition, (struct qn_metric_labels){NULL, 0}, value);
}

static void put_stat(struct qn_exposition *exposition)
{
    int64_t fields[FIELD_COUNT] = {0};
    int64_t ticks = sysconf(_SC_CLK_TCK);
    int64_t boot_s = read_boot_s();
    if (!read_stat(fields) || ticks <= 0) {
        return;
    }
    int64_t tick_ns = NS_PER_S / ticks;
    put(exposition, "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.",
        QN_METRIC_COUNTER, (fields[FIELD_UTIME] + fields[FIELD_STIME]) * tick_ns);
    put(exposition, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
        QN_METRIC_GAUGE, fields[FIELD_VSIZE]);
    put(exposition, "process_resident_memory_bytes", "Resident memory size in bytes.",
        QN_METRIC_GAUGE, fields[FIELD_RSS] * sysconf(_SC_PAGESIZE));
    if (boot_s > 0) {
        put(exposition, "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.", QN_METRIC_GAUGE,
            boot_s * NS_PER_S + fields[FIELD_START] * tick_ns);
    }
}

static void put_limits(struct qn_exposition *exposition)
{
    struct rlimit limit;
    int64_t fds = count_fds();
    if (fds >= 0) {
        put(exposition, "process_open_fds", "Number of open file descriptors.", QN_METRIC_GAUGE,
            fds);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        put(exposition, "process_max_fds", "Maximum number of open file descriptors.",
            QN_METRIC_GAUGE, (int64_t)limit.rlim_cur);
    }
}

void qn_process_render(struct qn_exposition *exposition)
{
    static const struct qn_metric build = {"quern_build_info", "The version of quern; always 1.",
                                           QN_METRIC_INFO, false};
    const struct qn_metric_label version = {"version", quern_version()};
    put_stat(exposition);
    put_limits(exposition);
    qn_exposition_family(exposition, &build);
    qn_exposition_sample(exposition, (struct qn_metric_labels){&version, 1}, 1);
}
