/* SPDX-License-Identifier: MIT */
/* commands.c - gives commands a zygote, so that a process with threads forks nothing.
 *
 * With threads as pool the zygote of the options has no other use; the prefork pool reads the
 * events of that one, so commands beside handlers have a second process. */
#include "worker/commands.h"

#include "pool/exec/launcher.h"
#include "worker/internal.h"
#include "worker/prefork/nursery.h"
#include "worker/prefork/remote.h"

quern_status qn_commands_prepare(struct quern_worker *worker, quern_error *err)
{
    quern_zygote *zygote = worker->options.zygote;
    return zygote == NULL || worker->options.pool != QUERN_POOL_PREFORK
               ? QUERN_OK
               : qn_nursery_fork_commands(zygote, err);
}

quern_status qn_commands_start(struct quern_worker *worker, quern_error *err)
{
    quern_zygote *zygote = worker->options.zygote;
    if (zygote == NULL) {
        return QUERN_OK;
    }
    struct qn_zygote *process = qn_nursery_take_for_commands(zygote);
    if (process == NULL && worker->options.pool != QUERN_POOL_PREFORK) {
        process = qn_nursery_take(zygote);
    }
    if (process == NULL) {
        return QUERN_OK;
    }
    quern_status status =
        qn_launcher_new(process, qn_remote_note_gone, worker, &worker->launcher, err);
    if (status == QUERN_OK) {
        qn_launcher_set_cgroup(worker->launcher, worker->cgroup_fd);
    }
    return status;
}

void qn_commands_end(struct quern_worker *worker)
{
    qn_launcher_release(worker->launcher);
    worker->launcher = NULL;
}
