# SPDX-License-Identifier: MIT
# lib.sh - what the scripts that print figures share; sourced by them, not run.
#
# $quern: the program; $folder: a scratch folder; $turns: how often each figure is measured;
# $broker: arguments for the program, "" or "--broker URL".

# figure NAME UNIT GOAL - reads one number a line, prints the line of the figure: the median, the
# smallest and the largest. GOAL is ">=N", "<=N" or "-".
figure()
{
    sort -n | awk -v name="$1" -v unit="$2" -v goal="$3" '
    { value[NR] = $1 }
    function show(x) { return sprintf(unit == "tasks/s" ? "%.0f" : "%.3f", x) }
    END {
        if (NR == 0) { printf "%-32s failed\n", name; exit }
        median = NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2
        limit = substr(goal, 3) + 0
        verdict = ""
        if (goal ~ /^>=/ && median < limit) verdict = "  MISSED"
        if (goal ~ /^<=/ && median > limit) verdict = "  MISSED"
        printf "%-32s %10s %-7s (min %s, max %s; goal %s)%s\n",
            name, show(median), unit, show(value[1]), show(value[NR]), goal, verdict
    }'
}

# field NAME - the number of that name in lines of JSON.
field()
{
    tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\(-\{0,1\}[0-9.e+-]*\)\$/\1/p"
}

# measure NAME ARGUMENTS... - runs the bench $turns times; the JSON goes to a file of that name.
measure()
{
    file=$folder/$1
    shift
    : >"$file"
    for turn in $(seq "$turns"); do
        # shellcheck disable=SC2086 # none or two words
        "$quern" --json $broker bench "$@" >>"$file"
    done
}

# load NAME GOAL ARGUMENTS... - a figure in tasks a second.
load()
{
    name=$1
    goal=$2
    shift 2
    measure last "$@"
    field tasks_per_second <"$folder/last" | figure "$name" tasks/s "$goal"
}

# latency NAME GOAL_P50 GOAL_P99 ARGUMENTS... - three figures in ms.
latency()
{
    name=$1
    goal_p50=$2
    goal_p99=$3
    shift 3
    measure last latency "$@"
    field p50_ms <"$folder/last" | figure "$name p50" ms "$goal_p50"
    field p99_ms <"$folder/last" | figure "$name p99" ms "$goal_p99"
    field max_ms <"$folder/last" | figure "$name max" ms -
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
