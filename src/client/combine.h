/* SPDX-License-Identifier: MIT */
/* combine.h - concurrent callers share one transaction. */
#ifndef QN_CLIENT_COMBINE_H
#define QN_CLIENT_COMBINE_H

#include "client/client.h"

/* Stores the request, together with those of other threads. Blocks until request->failed and its
 * other outputs are set. */
void qn_combine_request(quern_client *client, struct qn_request *request);

#endif
