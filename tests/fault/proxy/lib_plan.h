/* SPDX-License-Identifier: MIT */
/* lib_plan.h - what a proxy does to which request: by rules of the test, or by dice.
 *
 * The dice of a request depend on the seed, on the name of its connection and on how many writes of
 * that name there were before it. So they do not depend on how the threads and connections of a run
 * happen to take turns, and the same seed does the same again. */
#ifndef TESTS_FAULT_PROXY_LIB_PLAN_H
#define TESTS_FAULT_PROXY_LIB_PLAN_H

#include "lib_resp.h"

#include <stdint.h>

#define PROXY_NAME_SIZE 48
#define PROXY_RULES_MAX 32
#define PROXY_NAMES_MAX 64

enum proxy_fault {
    PROXY_CUT_BEFORE,       /* before the request reaches the server */
    PROXY_CUT_REQUEST,      /* after some of its bytes have */
    PROXY_CUT_AFTER,        /* it was executed, and no byte of the reply has come back */
    PROXY_CUT_REPLY,        /* after some bytes of the reply */
    PROXY_RESET_BEFORE,     /* as the cuts, but TCP's RST */
    PROXY_RESET_AFTER,      /* executed */
    PROXY_HALF_OPEN_BEFORE, /* open, but from now on nothing gets through, nor does the request */
    PROXY_HALF_OPEN_AFTER,  /* executed */
    PROXY_DELAY,            /* its reply, and those behind it, come late */
    PROXY_DRIBBLE,          /* byte by byte to the server, and the reply back */
    PROXY_ERROR,            /* not executed: the reply is an error of the test's choice */
    PROXY_FAULT_COUNT,
    PROXY_NOTHING = PROXY_FAULT_COUNT
};
/* Sets of faults, a bit each. */
#define PROXY_BIT(fault) (UINT32_C(1) << (fault))
#define PROXY_CUTS (PROXY_BIT(PROXY_CUT_REPLY + 1) - 1)
/* All that a client notices without a timeout. */
#define PROXY_BRIEF                                                                                \
    (PROXY_CUTS | PROXY_BIT(PROXY_RESET_BEFORE) | PROXY_BIT(PROXY_RESET_AFTER) |                   \
     PROXY_BIT(PROXY_DELAY) | PROXY_BIT(PROXY_DRIBBLE))
#define PROXY_ALL                                                                                  \
    (PROXY_BRIEF | PROXY_BIT(PROXY_HALF_OPEN_BEFORE) | PROXY_BIT(PROXY_HALF_OPEN_AFTER))

/* "cut-before" and so on. */
const char *proxy_fault_name(enum proxy_fault fault);
/* PROXY_NOTHING: there is no such name. */
enum proxy_fault proxy_fault_of(const char *name, size_t size);

/* The errors of a server, as it words them. */
struct proxy_error {
    const char *name; /* "LOADING", "MAXCLIENTS" */
    const char *text; /* without the "-" and the end of the line */
};
extern const struct proxy_error proxy_errors[];
extern const size_t proxy_error_count;
/* The text for a name, or NULL. */
const char *proxy_error_text(const char *name);

struct proxy_rule {
    const char *to; /* a command, or its first argument: ID, the SHA1 of a script; NULL: any */
    const char *by; /* a part of the name of the connection: "pump"; NULL: any */
    enum proxy_fault fault;
    const char *error; /* of PROXY_ERROR, as proxy_errors has them */
    size_t skip;       /* of those that match, first */
    size_t count;      /* then this many; 0: all */
    size_t at;         /* the byte of a cut, from 0 */
    bool hang_up;      /* after the error */
    int64_t ms;        /* of a delay */
    bool varies;       /* it does: from 3/4 of that to all of it */
};

/* What is to be done to one request. */
struct proxy_deed {
    enum proxy_fault fault;
    const char *error;
    size_t at;     /* the byte of a cut, if part is not set */
    uint32_t part; /* else: of 2^32, of its size */
    bool hang_up;
    int64_t ms;
    size_t rule; /* that chose it; PROXY_RULES_MAX: none */
};

/* Of the latest request that a rule was applied to. */
struct proxy_sizes {
    size_t request;
    size_t reply;
};

/* Bytes in a second of each link; 0: as many as come. */
struct proxy_rates {
    unsigned taken; /* from the client */
    unsigned given; /* to it */
};

struct proxy_count {
    char name[PROXY_NAME_SIZE];
    uint64_t writes;
};

struct proxy_plan {
    uint64_t seed;
    unsigned permille;  /* of writes */
    uint32_t faults;    /* a set */
    size_t faults_left; /* that the dice may still choose */
    int64_t delay_ms_max;
    struct proxy_rates rates;
    struct proxy_rule rules[PROXY_RULES_MAX];
    size_t seen[PROXY_RULES_MAX]; /* requests that matched */
    struct proxy_sizes sizes[PROXY_RULES_MAX];
    size_t rule_count;
    struct proxy_count counts[PROXY_NAMES_MAX];
    size_t name_count;
};

/* The deed of the first rule that the request meets, or nothing. */
struct proxy_deed proxy_plan_rule(struct proxy_plan *plan, const char *name,
                                  const struct resp_bytes *request);
/* The dice for a write with this many requests on a connection of that name; *ret_victim: the
 * request that is meant. */
struct proxy_deed proxy_plan_roll(struct proxy_plan *plan, const char *name, size_t requests,
                                  size_t *ret_victim);
/* Where to cut what has this size: below it. */
size_t proxy_deed_at(const struct proxy_deed *deed, size_t size);

#endif
