/* SPDX-License-Identifier: MIT */
/* handler_options.h - the options of a handler: their limits, and a copy that owns its lists. Pure.
 */
#ifndef QN_WORKER_POLICY_HANDLER_OPTIONS_H
#define QN_WORKER_POLICY_HANDLER_OPTIONS_H

#include "base/memory/view.h"
#include "quern/mux.h"

enum { QN_ERROR_CLASS_SIZE_MAX = 64, QN_ERROR_CLASSES_MAX = 64 };

/* Checks the caller's options (may be NULL: the defaults) and copies them with their lists. */
QUERN_NODISCARD quern_status qn_handler_options_read(struct qn_bytes theirs,
                                                     quern_handler_options *ret_options,
                                                     quern_error *err);
/* Frees the lists. */
void qn_handler_options_finish(quern_handler_options *options);
/* Whether a text may be the class of an error. */
bool qn_handler_options_is_class(const char *text);

#endif
