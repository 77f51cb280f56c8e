/* SPDX-License-Identifier: MIT */
/* descriptors.c - a limit of the system (RLIMIT_NOFILE) that is too low for a worker.
 *
 * The worker lives with it (src/worker/run/shortage.c): it gives runs back and pauses. But the
 * user should learn at once why it will never reach its concurrency. */
#include "cli/work/descriptors.h"

#include <inttypes.h>
#include <sys/resource.h>

/* A command: four pipes, its process, its end, its cancellation; while it is started five more. The
 * worker itself: files or connections of its broker, and the descriptors that its threads wait at.
 */
#define FDS_PER_COMMAND 7
#define FDS_WHILE_STARTED 5
#define FDS_OF_WORKER 40

void qn_work_descriptors_warn(const struct qn_cli *cli, uint32_t concurrency)
{
    struct rlimit limit;
    uint64_t wanted = FDS_OF_WORKER + (uint64_t)concurrency * (FDS_PER_COMMAND + FDS_WHILE_STARTED);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= wanted) {
        return;
    }
    qn_cli_warn(cli,
                "warning: %" PRIu64 " open files are allowed (RLIMIT_NOFILE), too few for"
                " concurrency %" PRIu32 "; allow %" PRIu64
                " (ulimit -n, or LimitNOFILE= of systemd)",
                (uint64_t)limit.rlim_cur, concurrency, wanted);
}
