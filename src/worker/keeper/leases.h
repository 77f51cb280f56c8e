/* SPDX-License-Identifier: MIT */
/* leases.h - the thread that extends the leases of all held runs. */
#ifndef QN_WORKER_KEEPER_LEASES_H
#define QN_WORKER_KEEPER_LEASES_H

void *qn_leases_main(void *worker);

#endif
