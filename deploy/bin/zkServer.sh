#!/bin/bash
# ZooKeeper's control script, for old habits: the same commands, for a Pole server. On a machine with systemd use the unit.
#
#   zkServer.sh [--config DIR] start|start-foreground|stop|restart|status|version|print-cmd [FILE]
#
# FILE is a configuration, or its name in the folder: --config, ZOOCFGDIR, or /etc/pole. The log goes to ZOO_LOG_DIR, or
# beside the data; the process id to ZOOPIDFILE, or dataDir/zookeeper_server.pid.
set -u

pole="${POLE:-pole}"
folder="${ZOOCFGDIR:-/etc/pole}"
if [ "${1:-}" = --config ]; then
    folder="${2:?a folder is needed after --config}"
    shift 2
fi
command="${1:-}"
file="${2:-${ZOOCFG:-zoo.cfg}}"
case "$file" in
    */*) config="$file" ;;
    *) config="$folder/$file" ;;
esac

fail() {
    echo "$1" >&2
    exit 1
}

# The value of a key of the configuration, which may have spaces around the equals sign.
setting() {
    sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*//p" "$config" | tail -n 1 | tr -d '\r"' | sed 's/[[:space:]]*$//'
}

need_config() {
    [ -r "$config" ] || fail "Cannot read $config"
    echo "Using config: $config" >&2
    data="$(setting dataDir)"
    [ -n "$data" ] || fail "$config has no dataDir"
    pid_file="${ZOOPIDFILE:-$data/zookeeper_server.pid}"
}

is_running() {
    [ -f "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null
}

start() {
    is_running && fail "already running as process $(cat "$pid_file")"
    mkdir -p "$data"
    log="${ZOO_LOG_DIR:-$data}/pole.log"
    nohup "$pole" server --config "$config" >>"$log" 2>&1 </dev/null &
    echo $! >"$pid_file"
    # A bad configuration or a taken port ends it at once.
    sleep 1
    if is_running; then
        echo "Starting pole ... STARTED"
    else
        rm -f "$pid_file"
        tail -n 5 "$log" >&2
        fail "Starting pole ... FAILED TO START; the log is $log"
    fi
}

stop() {
    if ! is_running; then
        rm -f "$pid_file"
        echo "Stopping pole ... no pole to stop"
        return
    fi
    pid="$(cat "$pid_file")"
    kill -TERM "$pid"
    # A leader hands over first.
    for _ in $(seq 300); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -0 "$pid" 2>/dev/null && fail "process $pid does not end"
    rm -f "$pid_file"
    echo "Stopping pole ... STOPPED"
}

# Asks the server on its client port, as Apache's script does.
status() {
    port="$(setting clientPort)"
    host="$(setting clientPortAddress)"
    if [ -z "$port" ]; then
        id="$(cat "$data/myid" 2>/dev/null || echo 1)"
        client="$(setting "server\\.$id" | sed -n 's/.*;//p')"
        port="${client##*:}"
        host="${client%"$port"}"
        host="${host%:}"
    fi
    [ -n "$port" ] || fail "$config has no client port"
    case "$host" in '' | 0.0.0.0) host=127.0.0.1 ;; esac
    echo "Client port found: $port. Client address: $host." >&2
    exec 3<>"/dev/tcp/$host/$port" || fail "Error contacting service. It is probably not running."
    printf srvr >&3
    mode="$(timeout 5 cat <&3 | sed -n 's/^Mode: /Mode: /p')"
    [ -n "$mode" ] || fail "Error contacting service. It is not serving requests."
    echo "$mode"
}

case "$command" in
    start) need_config && start ;;
    start-foreground) need_config && exec "$pole" server --config "$config" ;;
    stop) need_config && stop ;;
    restart) need_config && stop && start ;;
    status) need_config && status ;;
    version) exec "$pole" --version ;;
    print-cmd) need_config && echo "$pole server --config $config" ;;
    *) fail "Usage: $0 [--config DIR] {start|start-foreground|stop|restart|status|version|print-cmd} [FILE]" ;;
esac
