# SPDX-License-Identifier: MIT
# growth.sh - the cost of a task beside many others; a part of redis.
#
# A queue is filled once and stays so: each turn drains the tasks that it enqueues. Each size has a
# server of its own, since removing millions of tasks takes as long as filling, and no rewrites of
# the AOF: with gigabytes they never end, and would hide the cost of the size itself.

GROWTH_TASKS=50000

# sums NAME VERB - the two figures measured into $folder/VERB.
sums()
{
    field tasks_per_second <"$folder/$2" | figure "$1" tasks/s -
    field broker_cpu_us <"$folder/$2" | figure "$1, Redis CPU per task" us -
}

# The turns over a queue that is there: one of each.
over_pending()
{
    for verb in enqueue drain e2e; do
        : >"$folder/$verb"
    done
    for turn in $(seq "$turns"); do
        for verb in enqueue drain e2e; do
            if ! bench "$folder/$verb" "$verb" --standing --tasks "$GROWTH_TASKS"; then
                return 1
            fi
        done
    done
}

growth_pending()
{
    name="$1 pending"
    picked "$name" || return 0
    serve growth yes --auto-aof-rewrite-percentage 0
    empty=$(info used_memory)
    normal=$limit
    limit=$((limit + $1 / 10000))
    if ! bench /dev/null enqueue --standing --tasks "$1"; then
        failed "$name, filling"
    else
        full=$(info used_memory)
        awk -v a="$empty" -v b="$full" -v n="$1" 'BEGIN { print (b - a) / n }' |
            figure "$name, Redis memory per task" bytes -
        if over_pending; then
            sums "$name, enqueue" enqueue
            sums "$name, drain" drain
            sums "$name, end to end" e2e
        else
            failed "$name"
        fi
    fi
    limit=$normal
    unserve
}

# In turns, so that the sizes can be compared.
growth_active()
{
    picked "active" || return 0
    serve growth yes --auto-aof-rewrite-percentage 0
    sizes="0 100 1000 10000"
    for size in $sizes; do
        : >"$folder/$size"
    done
    for turn in $(seq "$turns"); do
        for size in $sizes; do
            if ! bench "$folder/$size" drain --tasks 100000 --active "$size"; then
                failed "drain, $size active"
                unserve
                return
            fi
        done
    done
    for size in $sizes; do
        sums "drain, $size active" "$size"
    done
    unserve
}

section="redis growth"
title "Redis: many tasks pending or active (appendonly everysec, no rewrites)"
prepare()
{
    settle
}
for size in ${BENCH_PENDING:-10000 100000 1000000 5000000}; do
    growth_pending "$size"
done
growth_active
prepare()
{
    fresh
}
