/* SPDX-License-Identifier: MIT */
/* outcome_args.h - the outcome of one run as arguments of outcome.lua. */
#ifndef QN_BROKER_REDIS_RUN_OUTCOME_ARGS_H
#define QN_BROKER_REDIS_RUN_OUTCOME_ARGS_H

#include "broker/past/run_entry.h"
#include "redis/pipeline.h"

/* Done, and nothing stays or is to be freed: the script has a short way for these, and gets only
 * the run. */
bool qn_redis_outcome_is_plain(const struct qn_outcome *outcome);
/* A failure that leaves no attempt: the script archives its task. */
bool qn_redis_outcome_uses_up_attempts(const struct qn_outcome *outcome);

/* Appends id and token. */
void qn_redis_outcome_put_run(struct qn_pipeline *pipeline, const struct qn_leased *run);
/* Appends an outcome that is not plain, and before it what it changes in its task. */
QUERN_NODISCARD quern_status qn_redis_outcome_put(struct qn_pipeline *pipeline,
                                                  struct qn_run_reporter *reporter,
                                                  const struct qn_outcome *outcome,
                                                  quern_error *err);

#endif
