# SPDX-License-Identifier: MIT
# lib.sh - common to the scripts that print figures; sourced by them, not run.
#
# From run: $quern, the program; $turns, how often each figure is measured; $limit, the seconds that
# one may take. Each script sets $section, the word before the names for BENCH_ONLY, and $broker,
# arguments for the program: "" or "--broker URL". It may define prepare, which is called before
# each measurement, and recover, after one that failed.
#
# Programs are started under timeout(1), which forwards our signals and kills one that ignores them.
# It is started in the background and waited for, since a shell sees a signal only then.

folder=$(mktemp -d)
started=""
running=""
section=""
wrap="" # a command before each measurement
export TMPDIR="$folder"

stop()
{
    for pid in "$@"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}

finish()
{
    # shellcheck disable=SC2086 # words
    stop $running $started
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

prepare() { :; }
recover() { :; }

# picked NAME - whether it is to be measured.
picked()
{
    [ -z "${BENCH_ONLY:-}" ] || printf '%s: %s\n' "$section" "$1" | grep -Eq -- "$BENCH_ONLY"
}

# title WORDS... - a heading, printed when a figure follows.
title()
{
    printf '\n%s\n' "$*" >"$folder/title"
}

show_title()
{
    cat "$folder/title" 2>/dev/null || true
    rm -f "$folder/title"
}

# figure NAME UNIT GOAL - reads one number a line, prints the line of the figure: the median, the
# smallest and the largest. GOAL is ">=N", "<=N" or "-".
figure()
{
    show_title
    sort -n | awk -v name="$1" -v unit="$2" -v goal="$3" '
    { value[NR] = $1 }
    function show(x) { return sprintf(unit ~ /^(tasks|calls|bytes)/ ? "%.0f" : "%.3f", x) }
    END {
        if (NR == 0) { printf "%-48s not known\n", name; exit }
        median = NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2
        limit = substr(goal, 3) + 0
        verdict = ""
        if (goal ~ /^>=/ && median < limit) verdict = "  MISSED"
        if (goal ~ /^<=/ && median > limit) verdict = "  MISSED"
        printf "%-48s %10s %-7s (min %s, max %s%s)%s\n", name, show(median), unit,
            show(value[1]), show(value[NR]), goal == "-" ? "" : "; goal " goal, verdict
    }'
}

# failed NAME - prints the line of a failed figure; $reason has the cause.
failed()
{
    show_title
    printf '%-48s failed: %s\n' "$1" "$reason"
    recover
}

# field NAME - the number of that name in lines of JSON.
field()
{
    tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\(-\{0,1\}[0-9.e+-]*\)\$/\1/p"
}

# limited FILE COMMAND... - runs it, and appends its output to the file. Fails with $reason.
limited()
{
    file=$1
    shift
    code=0
    timeout -k 5 "$limit" "$@" >>"$file" 2>"$folder/errors" &
    running=$!
    wait "$running" || code=$?
    running=""
    case $code in
    0) return 0 ;;
    124 | 137) reason="not done after $limit s" ;;
    *) reason=$(tail -n 1 "$folder/errors") && reason=${reason:-"it ended with $code"} ;;
    esac
    return 1
}

# bench FILE ARGUMENTS... - one measurement; its JSON goes to the end of the file.
bench()
{
    to=$1
    shift
    prepare
    # shellcheck disable=SC2086 # none or two words
    limited "$to" $wrap "$quern" --json $broker bench "$@"
}

# measure NAME ARGUMENTS... - runs the bench $turns times; the JSON goes to $folder/last. Fails when
# it is not picked, and when one of them failed, which is printed then.
measure()
{
    name=$1
    shift
    picked "$name" || return 1
    : >"$folder/last"
    for turn in $(seq "$turns"); do
        if ! bench "$folder/last" "$@"; then
            failed "$name"
            return 1
        fi
    done
}

# load NAME GOAL ARGUMENTS... - a figure in tasks a second.
load()
{
    name=$1
    goal=$2
    shift 2
    measure "$name" "$@" || return 1
    field tasks_per_second <"$folder/last" | figure "$name" tasks/s "$goal"
}

# latencies NAME GOAL_P50 GOAL_P99 - three figures in ms, of the latest measurement.
latencies()
{
    field p50_ms <"$folder/last" | figure "$1 p50" ms "$2"
    field p99_ms <"$folder/last" | figure "$1 p99" ms "$3"
    field max_ms <"$folder/last" | figure "$1 max" ms -
}

# latency NAME GOAL_P50 GOAL_P99 ARGUMENTS... - the same of so many turns.
latency()
{
    name=$1
    goal_p50=$2
    goal_p99=$3
    shift 3
    measure "$name" latency "$@" || return 0
    latencies "$name" "$goal_p50" "$goal_p99"
}

# lateness - of delayed tasks, which never start too early.
lateness()
{
    latency "delayed lateness" '<=1' '<=5' --delayed
    if picked "delayed lateness"; then
        field min_ms <"$folder/last" | figure "delayed lateness min" ms '>=0'
    fi
}

# megabytes FIELD FILE - the numbers of that field in bytes, as MB.
megabytes()
{
    field "$1" <"$2" | awk '{ printf "%.3f\n", $1 / 1048576 }'
}

# pools GOAL - handlers in threads and in prefork children, turn by turn, as many of both as there
# are processors; then how soon a task starts in a child, and is pending again after a death.
pools()
{
    name="drain, threads and children"
    if picked "$name"; then
        : >"$folder/threads"
        : >"$folder/prefork"
        for turn in $(seq "$turns"); do
            for pool in threads prefork; do
                bench "$folder/$pool" drain --tasks 100000 --pool "$pool" \
                    --concurrency "$(nproc)" ||
                    { failed "$name"; return; }
            done
        done
        for pool in threads prefork; do
            goal=-
            [ "$pool" = threads ] || goal=$1
            field tasks_per_second <"$folder/$pool" | figure "drain, $pool" tasks/s "$goal"
            field worker_cpu_us <"$folder/$pool" | figure "drain, $pool, worker CPU per task" us -
            megabytes worker_rss_bytes "$folder/$pool" | figure "drain, $pool, worker RssAnon" MB -
        done
        field child_cpu_us <"$folder/prefork" |
            figure "drain, prefork, children CPU per task" us -
        megabytes child_rss_bytes "$folder/prefork" | figure "drain, prefork, child RssAnon" MB -
        megabytes zygote_rss_bytes "$folder/prefork" |
            figure "drain, prefork, zygote RssAnon" MB -
    fi
    latency "idle latency, prefork" - - --tasks 200 --pool prefork
    for signal in 9 11; do
        if measure "death to pending, signal $signal" deaths --tasks 300 --signal "$signal"; then
            latencies "death to pending, signal $signal" - '<=50'
        fi
    done
    load "drain, commands" - drain --tasks 3000 --pool exec || true
}

# start_worker BROKER OPTIONS - an idle worker; sets $worker_pid.
start_worker()
{
    # shellcheck disable=SC2086 # words
    timeout -k 5 600 "$quern" $1 work --quiet --exec 'none=true' $2 >"$folder/idle.log" 2>&1 &
    running=$!
    sleep 3
    # shellcheck disable=SC2034 # for idle and its command
    worker_pid=$(tr -d ' ' <"/proc/$running/task/$running/children")
}

# cpu_ns PID - time on a CPU of all threads so far.
cpu_ns()
{
    cat "/proc/$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# rss_anon PID - its anonymous memory in MB.
rss_anon()
{
    sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status" |
        awk '{ printf "%.3f\n", $1 / 1024 }'
}

# idle NAME GOAL_CPU COMMAND... - the cost of an idle worker, three times; COMMAND takes ten
# seconds.
idle()
{
    name=$1
    goal=$2
    shift 2
    : >"$folder/memory"
    : >"$folder/cpu"
    for turn in 1 2 3; do
        before=$(cpu_ns "$worker_pid")
        "$@"
        after=$(cpu_ns "$worker_pid")
        awk -v a="$before" -v b="$after" 'BEGIN { printf "%.3f\n", (b - a) / 1e6 }' >>"$folder/cpu"
        rss_anon "$worker_pid" >>"$folder/memory"
    done
    stop "$running"
    running=""
    figure "$name, RssAnon" MB '<=6' <"$folder/memory"
    figure "$name, CPU in 10 s" ms "$goal" <"$folder/cpu"
}
