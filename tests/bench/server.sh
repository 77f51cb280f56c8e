# SPDX-License-Identifier: MIT
# server.sh - redis-servers for the scripts that print figures; sourced after lib.sh.

# serve NAME AOF [SETTINGS...] - a server of its own, in $folder/NAME, on a Unix socket and, when
# $port is not 0, on that port; $pin is a command before it. Sets $server, $socket and $broker.
port=0
pin=""
serve()
{
    served=$*
    socket=$folder/$1/redis.sock
    mkdir -p "$folder/$1"
    aof=$2
    log=$folder/$1/log
    dir=$folder/$1
    shift 2
    # shellcheck disable=SC2086 # words
    $pin timeout -k 10 21600 redis-server --bind 127.0.0.1 --port "$port" --unixsocket "$socket" \
        --dir "$dir" --save "" --appendonly "$aof" --appendfsync everysec "$@" >"$log" 2>&1 &
    server=$!
    started="$started $server"
    broker="--broker redis-socket://$socket"
    timeout 10 tail --pid="$server" -n +1 -f "$log" | grep -q "eady to accept" && return
    echo "bench: redis-server does not answer: $(tail -n 1 "$log")" >&2
    exit 1
}

# pick_port - sets $port to one that is free.
pick_port()
{
    port=$(python3 -c "if True:
        import socket
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            print(probe.getsockname()[1])")
}

# unserve - ends the last server and removes its files.
unserve()
{
    stop "$server"
    started=${started% "$server"}
    rm -rf "$dir"
}

ask()
{
    timeout 30 redis-cli -s "$socket" "$@"
}

# info NAME - the value of that line of INFO.
info()
{
    ask info | tr -d '\r' | sed -n "s/^$1://p"
}

# settle - waits until the server has nothing left to write.
settle()
{
    for try in $(seq 300); do
        case $(info aof_rewrite_in_progress)$(info aof_rewrite_scheduled) in
        00) return ;;
        esac
        timeout 1 tail -n 0 -f "$log" | head -n 1 >/dev/null # until it logs something
    done
}
