#!/bin/sh
# Ends a controller of this private cluster in some way, or starts it again.
usage='usage: dev-controller kill|stop|freeze|thaw|start NAME (NAME as in cadm ping: c1, c2 ...)'
dir=$(CDPATH= cd "$(dirname "$0")/.." && pwd) || exit 1
action=$1 name=$2 file=$dir/run/$2.pid log=$dir/log/$2.log

fail() {
    echo "dev-controller: $1" >&2
    exit "$2"
}

[ $# = 2 ] && [ -f "$log" ] || fail "$usage" 2
pid=$(cat "$file" 2>/dev/null)

signal() {
    [ -n "$pid" ] && kill "$1" "$pid" 2>/dev/null || fail "$name does not run" 1
}

case $action in
    kill) signal -KILL ;;
    stop) signal -TERM ;;
    freeze) signal -STOP ;;
    thaw) signal -CONT ;;
    start)
        [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && fail "$name runs already (process $pid)" 1
        # It says that it is ready, as a leader or a standby, on the pipe.
        {
            setsid "$dir/bin/cosyd" --config "$dir/cosy.toml" --name "$name" --ready-fd 3 \
                3>&1 >>"$log" 2>&1 </dev/null &
            echo $! >"$file"
        } | grep -q ready || fail "$name did not start: $(tail -n 1 "$log")" 1
        ;;
    *) fail "$usage" 2 ;;
esac
