/* SPDX-License-Identifier: MIT */
/* link.h - opens the broker of a client, and waits for it if that is wanted. */
#ifndef QN_CLIENT_LINK_H
#define QN_CLIENT_LINK_H

#include "base/pace.h"
#include "broker/broker.h"
#include "quern/client.h"

/* How to try again: what the options say, else the URL. url: NULL: the options alone. */
struct qn_pace qn_link_pace(const quern_client_options *options, const char *url);
/* Tries again for options->connect_wait_ms, or max_retries times. The callbacks of the options are
 * called as long as the broker lives. */
QUERN_NODISCARD quern_status qn_link_open(const char *url, const quern_client_options *options,
                                          struct qn_broker **ret_broker, quern_error *err);

#endif
