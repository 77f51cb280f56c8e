/* SPDX-License-Identifier: MIT */
/* cgroup.h - the cgroup that children and commands of a worker join. */
#ifndef QN_WORKER_PREFORK_CGROUP_H
#define QN_WORKER_PREFORK_CGROUP_H

#include "quern/status.h"

struct quern_worker;

/* Opens options.child_cgroup, if it is given, and forgets the path. QUERN_E_INVALID: it is no
 * directory of cgroup v2 that processes may be moved to, or nothing would join it. */
QUERN_NODISCARD quern_status qn_cgroup_open(struct quern_worker *worker, quern_error *err);
void qn_cgroup_close(struct quern_worker *worker);
/* Names what it cannot limit. */
void qn_cgroup_log(struct quern_worker *worker);

#endif
