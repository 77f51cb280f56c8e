/* SPDX-License-Identifier: MIT */
/* findings.c - keeps the findings of a step of a check, and reports them. */
#include "broker/redis/doctor/findings.h"

#include <string.h>

#include "base/error.h"
#include "broker/inspect.h"

struct qn_kept_finding {
    struct qn_kept_finding *next;
    quern_finding finding;
};

static quern_severity severity_of(const char *invariant)
{
    if (strcmp(invariant, "note") == 0) {
        return QUERN_SEVERITY_NOTE;
    }
    bool warns = strcmp(invariant, "I8") == 0 || strcmp(invariant, "server") == 0 ||
                 strcmp(invariant, "lock") == 0;
    return warns ? QUERN_SEVERITY_WARNING : QUERN_SEVERITY_VIOLATED;
}

/* False: memory is out. */
static bool copy_text(struct qn_arena *arena, const char **text)
{
    *text = qn_arena_strdup(arena, *text == NULL ? "" : *text);
    return *text != NULL;
}

quern_status qn_redis_findings_keep(struct qn_redis_findings *findings,
                                    const quern_finding *finding, quern_error *err)
{
    struct qn_kept_finding *kept = qn_arena_alloc(&findings->arena, sizeof *kept);
    if (kept == NULL) {
        return qn_error_nomem(err);
    }
    *kept = (struct qn_kept_finding){.finding = *finding};
    quern_finding *copy = &kept->finding;
    copy->severity = severity_of(finding->invariant);
    if (!copy_text(&findings->arena, &copy->invariant) ||
        !copy_text(&findings->arena, &copy->queue) || !copy_text(&findings->arena, &copy->id) ||
        !copy_text(&findings->arena, &copy->text)) {
        return qn_error_nomem(err);
    }
    if (findings->first == NULL) {
        findings->first = kept;
    } else {
        findings->last->next = kept;
    }
    findings->last = kept;
    return QUERN_OK;
}

void qn_redis_findings_report(struct qn_redis_findings *findings)
{
    for (const struct qn_kept_finding *kept = findings->first; kept != NULL; kept = kept->next) {
        findings->on_finding(&kept->finding, findings->user);
    }
    findings->first = findings->last = NULL;
    qn_arena_reset(&findings->arena);
}

void qn_redis_findings_finish(struct qn_redis_findings *findings)
{
    qn_arena_finish(&findings->arena);
}
