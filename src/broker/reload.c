/* SPDX-License-Identifier: MIT */
/* reload.c - reads the files again that the URL of a broker names.
 *
 * A file of its own beside broker.c, since a broker that has no such files offers no operation, and
 * says so in words of its own. */
#include "broker/reload.h"

#include "base/error.h"
#include "broker/ops.h"

quern_status qn_broker_reload(struct qn_broker *broker, quern_error *err)
{
    quern_status status = qn_broker_check_fork(broker, err);
    if (status == QUERN_OK && broker->ops->reload == NULL) {
        status = qn_error_set(err, QUERN_E_UNSUPPORTED, "a %s broker is used without certificates",
                              broker->ops->scheme);
    }
    return status == QUERN_OK ? broker->ops->reload(broker, err) : status;
}
