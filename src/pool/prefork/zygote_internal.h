/* SPDX-License-Identifier: MIT */
/* zygote_internal.h - what zygote.c, zygote_exec.c and zygote_serve.c share. */
#ifndef QN_POOL_PREFORK_ZYGOTE_INTERNAL_H
#define QN_POOL_PREFORK_ZYGOTE_INTERNAL_H

#include "pool/prefork/zygote.h"

/* QUERN_E_THREADS: this process has more than one. */
QUERN_NODISCARD quern_status qn_zygote_check_threads(quern_error *err);

struct qn_zygote_process {
    int socket_fd;
    pid_t pid;            /* a child of ours, or of another zygote of ours */
    int pid_fd;           /* 0: none was opened yet */
    struct qn_room hello; /* of qn_alloc */
};
/* Takes a process that serves as a zygote; on failure it is killed. */
QUERN_NODISCARD quern_status qn_zygote_adopt(const struct qn_zygote_process *take_process,
                                             struct qn_zygote **ret_zygote, quern_error *err);

/* The first packet of each direction between qn_zygote_exec and qn_zygote_serve. That to the
 * program has a pidfd of the worker and, if the worker has one, its stderr. */
struct qn_zygote_handshake {
    uint64_t mark;
    uint64_t token;       /* random; the answer repeats it */
    uint64_t hello_size;  /* its bytes come as a memfd; 0: none */
    int32_t error_number; /* it could not be executed */
    int32_t reserved;
};
#define QN_ZYGOTE_MARK UINT64_C(0x717a79676f746532) /* "qzygote2"; its last digit is the version */
#define QN_ZYGOTE_HELLO_SIZE_MAX ((uint64_t)16 << 20)
enum { QN_ZYGOTE_SERVE_FD = 3 }; /* the socket in the executed program */

#endif
