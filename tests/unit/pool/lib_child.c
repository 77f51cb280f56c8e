/* SPDX-License-Identifier: MIT */
#include "lib_child.h"

#include "lib_test.h"

struct qn_child_spec lib_child_spec(const char *command)
{
    return (struct qn_child_spec){.command = command,
                                  .stdout_size_max = 4096,
                                  .stderr_size_max = 256,
                                  .kill_after_ms = 5000,
                                  .cancel_fd = -1};
}

struct qn_child_end lib_child_run(const struct qn_child_spec *spec)
{
    struct qn_child_end end;
    quern_error error = {0};
    assert_ok(qn_child_run(spec, &end, &error), error);
    return end;
}
