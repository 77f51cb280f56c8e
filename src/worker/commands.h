/* SPDX-License-Identifier: MIT */
/* commands.h - the zygote that forks the commands of a worker. */
#ifndef QN_WORKER_COMMANDS_H
#define QN_WORKER_COMMANDS_H

#include "quern/status.h"

struct quern_worker;

/* Sees to it that its zygote has one for commands, while it still can be asked: before
 * qn_remote_start. Errors as qn_nursery_fork_commands. */
QUERN_NODISCARD quern_status qn_commands_prepare(struct quern_worker *worker, quern_error *err);
/* Makes worker->launcher if its options have a zygote for commands; after qn_remote_start. */
QUERN_NODISCARD quern_status qn_commands_start(struct quern_worker *worker, quern_error *err);
/* No thread of the worker starts commands any more. Those that stay (--exec-loop) end with the mux,
 * and the zygote after them. */
void qn_commands_end(struct quern_worker *worker);

#endif
