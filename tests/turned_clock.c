/* SPDX-License-Identifier: MIT */
/* turned_clock.c - gives a foreign program (redis-server) a wall clock that a test sets.
 *
 * Preloaded by LD_PRELOAD. The file named by TURNED_CLOCK holds two int64: microseconds since 1970,
 * or 0 for the real time; and how many microseconds to add to the real time. Only the wall clock is
 * changed; clocks for durations are not. All other calls go to the kernel without the C library, so
 * that this works before the program's allocator does.
 *
 * Valkey 9.1 reads the wall clock only once a millisecond, and otherwise the processor's clock, if
 * /proc/cpuinfo describes that as steady. Here this is hidden, so that each change takes effect. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define US_PER_S INT64_C(1000000)

static const volatile int64_t *now_us;

__attribute__((constructor)) static void find_clock(void)
{
    const char *path = getenv("TURNED_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    const void *map = mmap(NULL, 2 * sizeof *now_us, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map != MAP_FAILED) {
        now_us = map;
    }
}

int clock_gettime(clockid_t id, struct timespec *ret_now)
{
    bool turned = id == CLOCK_REALTIME && now_us != NULL;
    int64_t us = turned ? now_us[0] : 0;
    if (us == 0) {
        int code = (int)syscall(SYS_clock_gettime, id, ret_now);
        if (code != 0 || !turned || now_us[1] == 0) {
            return code;
        }
        us = ret_now->tv_sec * US_PER_S + ret_now->tv_nsec / 1000 + now_us[1];
    }
    *ret_now = (struct timespec){.tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000};
    return 0;
}

int gettimeofday(struct timeval *restrict ret_now, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *ret_now = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret_now)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret_now != NULL) {
        *ret_now = now.tv_sec;
    }
    return now.tv_sec;
}

FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    return now_us != NULL && strcmp(path, "/proc/cpuinfo") == 0 ? NULL : fopen(path, mode);
}
