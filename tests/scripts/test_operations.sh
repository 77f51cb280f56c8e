#!/bin/sh
# Each operation of a broker (src/broker/ops.h) is called where absurd data, a hostile server and
# damaged files are tested: in tests/lib_round.c, and in a lib_*.c of
# tests/fuzz. Each command that is sent to Redis gets strange answers in
# tests/fault/redis/test_hostile.c.
set -eu
cd "$QUERN_SOURCE"
failed=0

report()
{
    echo "FAILED: $*" >&2
    failed=1
}

# `close` ends each of these tests. `enqueue_in` is `enqueue` in a transaction of the caller, whose
# handle only tests/contract has.
elsewhere="close enqueue_in"

operations=$(sed -n 's/^    qn_[a-z_]*_fn \*\([a-z_]*\);.*/\1/p' src/broker/ops.h)
members=$(grep -c '^    qn_.*_fn \*' src/broker/ops.h)
[ "$(echo "$operations" | wc -l)" = "$members" ] && [ "$members" -gt 30 ] ||
    report "src/broker/ops.h is not read any more as it is written"
for operation in $operations; do
    case " $elsewhere " in
    *" $operation "*) continue ;;
    esac
    case $operation in
    schedule_*) function=qn_$operation ;;
    *) function=qn_broker_$operation ;;
    esac
    grep -q "$function(" tests/lib_round.c tests/lib_task.c ||
        report "tests/lib_round.c does not call $function"
    grep -q "$function(" tests/fuzz/lib_operate.c tests/fuzz/lib_inspect.c ||
        report "no lib_*.c of tests/fuzz calls $function"
done

# These answer with ids, page after page: walks_that_never_end_are_ended has them.
pages="LRANGE ZRANGE"
hostile=$(sed -n '/^static const char \*const commands/,/^};/p' tests/fault/redis/test_hostile.c)
for command in $(grep -rhoE 'qn_pipeline_command\([^"()]*"[A-Z]+"' src/broker/redis |
    sed 's/.*"\(.*\)"/\1/' | sort -u); do
    case " $pages " in
    *" $command "*) continue ;;
    esac
    echo "$hostile" | grep -q "\"$command\"" ||
        report "tests/fault/redis/test_hostile.c has no strange answers to $command"
done
exit $failed
