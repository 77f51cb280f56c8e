/* SPDX-License-Identifier: MIT */
/* isolation.c - which company a charged task may have. */
#include "task/isolation.h"

bool qn_isolation_is_solo(const struct qn_isolation *isolation, int64_t level)
{
    if (isolation->slots <= 1 || level <= 0) {
        return false;
    }
    return level >= QN_ALONE_CHARGES || isolation->slots >> level <= 1;
}

/* A task of a level is also one of those below. */
static int64_t levels_of(int64_t level)
{
    return level < QN_ALONE_CHARGES - 1 ? level : QN_ALONE_CHARGES - 1;
}

uint32_t qn_isolation_room(const struct qn_isolation *isolation, int64_t level)
{
    uint32_t room = UINT32_MAX;
    if (isolation->slots <= 1) {
        return room;
    }
    for (int64_t c = 1; c <= levels_of(level); c++) {
        uint32_t company = isolation->slots >> c;
        uint32_t held = isolation->held[c - 1];
        uint32_t left = company > held ? company - held : 0;
        room = left < room ? left : room;
    }
    return room;
}

void qn_isolation_add(struct qn_isolation *isolation, int64_t level)
{
    for (int64_t c = 1; c <= levels_of(level); c++) {
        isolation->held[c - 1]++;
    }
}
