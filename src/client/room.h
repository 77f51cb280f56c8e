/* SPDX-License-Identifier: MIT */
/* room.h - stores a request, and waits for room in queues that are full. */
#ifndef QN_CLIENT_ROOM_H
#define QN_CLIENT_ROOM_H

#include "client/combine.h"

/* Until when a call that begins now waits for room; 0: it does not. */
int64_t qn_room_until_mono_ns(const quern_client *client);
/* As qn_combine_request. Tasks that the limit of their queue keeps out are tried again until then;
 * what is still kept out has failed with QUERN_E_FULL, as has the request (broker_status). */
void qn_room_request(quern_client *client, struct qn_request *request, int64_t until_mono_ns);

#endif
