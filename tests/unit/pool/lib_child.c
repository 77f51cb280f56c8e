/* SPDX-License-Identifier: MIT */
#include "lib_child.h"

#include <stdlib.h>

#include "pool/prefork/zygote.h"

static struct qn_launcher *launcher;

static void must(quern_status status, const quern_error *err)
{
    if (status != QUERN_OK) {
        (void)fprintf(stderr, "%s\n", err->text);
        exit(98);
    }
}

int lib_child_main_twice(int argc, char **argv, const struct test_group *group)
{
    static const struct qn_zygote_program program = {.run_child = NULL};
    struct qn_zygote *zygote = NULL;
    quern_error err;
    must(qn_zygote_fork(&program, &zygote, &err), &err);
    int exit_code = test_main(argc, argv, group);
    if (exit_code == 0) {
        must(qn_launcher_new(zygote, NULL, NULL, &launcher, &err), &err);
        exit_code = test_main(argc, argv, group);
        qn_launcher_release(launcher);
    } else {
        qn_zygote_free(zygote);
    }
    return exit_code;
}

struct qn_launcher *lib_child_launcher(void)
{
    return launcher;
}

struct qn_child_spec lib_child_spec(const char *command)
{
    return (struct qn_child_spec){.command = command,
                                  .stdout_size_max = 4096,
                                  .stderr_size_max = 256,
                                  .kill_after_ms = 5000,
                                  .launcher = launcher,
                                  .cancel_fd = -1};
}

struct qn_child_end lib_child_run(const struct qn_child_spec *spec)
{
    struct qn_child_end end;
    quern_error error = {0};
    assert_ok(qn_child_run(spec, &end, &error), error);
    return end;
}
