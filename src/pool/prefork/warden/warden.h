/* SPDX-License-Identifier: MIT */
/* warden.h - the parent of a zygote that loads foreign code: what that starts while it is
 * loaded does not outlive the zygote, however that ends. */
#ifndef QN_POOL_PREFORK_WARDEN_WARDEN_H
#define QN_POOL_PREFORK_WARDEN_WARDEN_H

#include "quern/status.h"

/* In a program that qn_zygote_exec has started, before it has threads or loads anything. Forks: the
 * child goes on, with a descriptor for qn_zygote_program.warden_fd; this process stays as its
 * warden and ends as the child does. QUERN_E_FULL: no process or no descriptor. */
QUERN_NODISCARD quern_status qn_warden_start(int *ret_fd, quern_error *err);

/* Sent by the zygote over that descriptor: it may leave processes behind. */
#define QN_WARDEN_LEAVE 'L'

#endif
