#!/bin/sh
# Path redundancy: ten messages from Router.A to a receiver on Router.B, B is
# killed, ten more to the receiver on Router.C.
#
#   demo.sh [FOLDER]   configuration files, instead of those beside this script
#
# QDROUTER_BIN is the folder of qdrouterd and qdstat, bin/ unless set.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
conf=${1:-$here}
bin=${QDROUTER_BIN:-$root/bin}
python=$root/examples/python
address=my_address
work=$(mktemp -d)
pids=

end() {
    for pid in $pids; do kill "$pid" 2>/dev/null || :; done
    wait 2>/dev/null || :
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

say() { printf '\n== %s\n' "$*"; }

# until_true SECONDS COMMAND...
until_true() {
    left=$(($1 * 5))
    shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        if [ "$left" -le 0 ]; then
            echo "waited in vain for: $*" >&2
            cat "$work"/*.log >&2
            exit 1
        fi
        sleep 0.2
    done
}

start() { # a router by its letter
    "$bin/qdrouterd" -c "$conf/router-$1/qdrouterd.conf" >"$work/$1.log" 2>&1 &
    pids="$pids $!"
}

# port of a router's listener for clients, the first of its configuration, from its log
port() { sed -n 's/.*Listening on .*:\([0-9]*\)\( (clients)\)\{0,1\}$/\1/p' "$work/$1.log" | head -n 1; }
listens() { [ -n "$(port "$1")" ]; }
knows() { "$bin/qdstat" -b "127.0.0.1:$1" -n | grep -q "$2"; }

ended() { ! kill -0 "$1"; }

ten() { # from port to port
    "$python/receiver.py" "amqp://127.0.0.1:$2/$address" 10 >"$work/received" &
    receiver=$!
    pids="$pids $receiver"
    "$here/sender.py" "amqp://127.0.0.1:$1/$address" 10 >"$work/sent"
    until_true 30 ended "$receiver"
    cat "$work/received"
    confirmed=$(grep -c 'was accepted$' "$work/sent" || :)
    echo "$confirmed messages confirmed"
    [ "$confirmed" = 10 ]
}

start b
b=$!
start c
start a
for r in a b c; do until_true 20 listens "$r"; done
pa=$(port a) pb=$(port b) pc=$(port c)
say "three routers; who knows whom, as Router.A sees it"
for p in "$pa" "$pb" "$pc"; do
    for id in Router.A Router.B Router.C; do until_true 20 knows "$p" "$id"; done
done
"$bin/qdstat" -b "127.0.0.1:$pa" -n

say "sender on Router.A, receiver on Router.B"
ten "$pa" "$pb"
"$bin/qdstat" -b "127.0.0.1:$pa" -a

say "Router.B is killed; the receiver moves to Router.C"
kill -KILL "$b"
ten "$pa" "$pc"
"$bin/qdstat" -b "127.0.0.1:$pa" -a
