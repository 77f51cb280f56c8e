/* SPDX-License-Identifier: MIT */
/* silence.h - which nodes of a cluster do not answer, so that no request waits for them again.
 *
 * The first request that gets no answer in time notes the node as silent. From then on requests
 * pass it by, and a thread looks after it: it asks the other nodes for a newer map, and greets the
 * silent one, until that answers or owns no slot any more. So a node that is frozen, or has
 * vanished from the network, costs the queues of the others one short wait. Any thread. */
#ifndef QN_REDIS_CLUSTER_SILENCE_H
#define QN_REDIS_CLUSTER_SILENCE_H

#include <stdbool.h>

#include "redis/cluster/cluster.h"

/* A node did not answer, or no connection to it could be had: `error` is that failure. Where no
 * thread can be started it is not noted: then each request finds that by itself. */
void qn_silence_note(struct qn_cluster *cluster, int node, const quern_error *error);
/* QUERN_E_CONNECT, and the latest reason why there is no connection to a node that is silent; or
 * that it does not answer. */
quern_status qn_silence_reason(struct qn_cluster *cluster, int node, quern_error *err);
bool qn_silence_is(struct qn_cluster *cluster, int node);
/* Ends the thread. No request may be in progress. */
void qn_silence_stop(struct qn_cluster *cluster);

#endif
