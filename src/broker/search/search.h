/* SPDX-License-Identifier: MIT */
/* search.h - the part of a broker's interface that searches tasks by a query, and changes those
 * that were found.
 *
 * It belongs to broker.h and inspect.h, whose rules and errors hold here, too. A search goes
 * through one state of one queue, in bounded steps; the caller goes from place to place. */
#ifndef QN_BROKER_SEARCH_SEARCH_H
#define QN_BROKER_SEARCH_SEARCH_H

#include "broker/listing.h"
#include "query/condition.h"

/* Where a search of a place continues. Zero: at its beginning. */
struct qn_search_position {
    uint64_t rank; /* entries before it, where the broker counts them. One that took n of them out
                    * of the place subtracts n. */
    /* The last entry that was looked at, where the broker goes by the keys of an index. */
    int32_t part;
    int64_t key;
    int64_t key2;
    int64_t seq;
};

struct qn_search {
    const struct qn_condition *condition;
    const char *queue;
    quern_task_state state;
    bool oldest_first; /* also archived and completed tasks, else the newest of these are first */
    int64_t now_ms;    /* from which ages are counted; 0: the broker's present time */
    struct qn_search_position from;
    uint64_t limit;    /* tasks that are reported */
    uint64_t scan_max; /* tasks that are looked at */
    /* Called for each that fulfils the condition; false ends the step. */
    bool (*on_task)(const quern_task_info *info, void *user);
    void *user;
};

struct qn_search_end {
    struct qn_search_position at;
    uint64_t scanned;
    int64_t now_ms;
    bool is_over; /* there is no more in this place */
    bool by_rank; /* the broker counts entries, so tasks that leave the place hide others */
};
/* Reports the tasks of the place that fulfil the condition, until on_task returns false or a limit
 * is reached; ret_end says where to continue. A task that moves meanwhile may be passed over or
 * reported twice. */
typedef quern_status qn_search_fn(struct qn_broker *broker, const struct qn_search *search,
                                  struct qn_search_end *ret_end, quern_error *err);
QUERN_NODISCARD qn_search_fn qn_broker_search;

/* A task that was found. */
struct qn_found {
    const char *id;
    const char *unique_key; /* of its lock; "": none */
};
struct qn_found_list {
    quern_action action;
    const char *queue;
    quern_task_state state;
    const struct qn_found *items;
    size_t count;      /* at most QN_BULK_MAX */
    uint64_t rank_max; /* no task is behind this rank of its place */
};
/* Applies the action to those that are still in this state; ret_done: how many. One transaction, or
 * a few. QUERN_E_STATE: the archive would grow beyond its limit; *ret_done counts those before. */
typedef quern_status qn_search_act_fn(struct qn_broker *broker, const struct qn_found_list *list,
                                      size_t *ret_done, quern_error *err);
QUERN_NODISCARD qn_search_act_fn qn_broker_search_act;

/* Whether the task fulfils the condition: the one answer for all brokers. */
bool qn_search_fits(const struct qn_condition *condition, const quern_task_info *info,
                    int64_t now_ms);

#endif
