/* SPDX-License-Identifier: MIT */
/* suspect.h - a task that may be wrong, by a first look at one of its places. */
#ifndef QN_BROKER_REDIS_DOCTOR_SUSPECT_H
#define QN_BROKER_REDIS_DOCTOR_SUSPECT_H

#include "broker/redis/doctor/doctor.h"

/* What a first look found; texts live in the arena of the step. */
struct qn_suspect {
    const char *id;
    size_t id_size;
    const char *message; /* without payload, if that is wrong; else NULL */
    size_t message_size;
    const char *why;
    unsigned char addition[12]; /* to be put behind the message, which makes it right */
    size_t addition_size;       /* 0: nothing can */
    const char *seen_in;        /* a container, or "" */
    const char *group;          /* that its message names, or "" */
    int64_t known_at_s;         /* when it was archived, or its retention ends; 0: not known */
};
/* Reads a message without payload; what is of use goes to the suspect. True: it is as it should
 * be. */
bool qn_suspect_read(struct qn_redis_doctor *doctor, const char *queue, const char *message,
                     size_t size, struct qn_suspect *suspect);
/* Looks at each in one script, which mends it if wanted, and keeps the findings. */
QUERN_NODISCARD quern_status qn_suspect_check_all(struct qn_redis_doctor *doctor, const char *queue,
                                                  const struct qn_suspect *suspects, size_t count,
                                                  quern_error *err);

#endif
