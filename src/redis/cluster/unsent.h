/* SPDX-License-Identifier: MIT */
/* unsent.h - the commands of a pipeline that are still to be sent; for pipeline.c and route.c. */
#ifndef QN_REDIS_CLUSTER_UNSENT_H
#define QN_REDIS_CLUSTER_UNSENT_H

#include "redis/pipeline.h"

/* The wanted commands from `first` on, as the server reads them; node: those for it, -1: all. NULL:
 * out of memory. */
char *qn_unsent_format(struct qn_pipeline *pipeline, size_t first, int node, size_t *ret_size);
/* Whether one of the commands for this node, which are to be written, stands before one that was
 * written there already: their replies would come in another order than they are read in. */
bool qn_unsent_waits(const struct qn_pipeline *pipeline, size_t first, int node);
/* Turns the call of a script into one with its text. */
void qn_unsent_put_text(struct qn_pipeline *pipeline, const struct qn_pipeline_command *command);
/* Whether a reply says that the server does not know the script: then the text takes its place, and
 * the command is wanted again. */
bool qn_unsent_lacks_script(struct qn_pipeline *pipeline, struct qn_pipeline_command *command);

#endif
