/* SPDX-License-Identifier: MIT */
/* reload.h - reads the files again that the URL of a broker names. */
#ifndef QN_BROKER_RELOAD_H
#define QN_BROKER_RELOAD_H

#include "broker/broker.h"

/* Certificates, keys and CAs, for connections that are made from now on. QUERN_E_UNSUPPORTED: the
 * URL names none; QUERN_E_INVALID: one is broken, and all is as before. Any thread. */
typedef quern_status qn_reload_fn(struct qn_broker *broker, quern_error *err);
QUERN_NODISCARD qn_reload_fn qn_broker_reload;

#endif
