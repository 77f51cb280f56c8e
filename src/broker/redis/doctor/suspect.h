/* SPDX-License-Identifier: MIT */
/* suspect.h - a task that may be wrong, by a first check of one of its places. */
#ifndef QN_BROKER_REDIS_DOCTOR_SUSPECT_H
#define QN_BROKER_REDIS_DOCTOR_SUSPECT_H

#include "broker/redis/doctor/doctor.h"

/* The result of a first check; texts live in the arena of the step. */
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
/* Reads a message without payload; useful parts go to the suspect. True: the message is correct. */
bool qn_suspect_read(struct qn_redis_doctor *doctor, const char *queue, const char *message,
                     size_t size, struct qn_suspect *suspect);
/* Checks each in one script, which repairs it if requested, and keeps the findings. */
QUERN_NODISCARD quern_status qn_suspect_check_all(struct qn_redis_doctor *doctor, const char *queue,
                                                  const struct qn_suspect *suspects, size_t count,
                                                  quern_error *err);

#endif
