# What the demos have in common; each sources it after it has set:
#
#   here  its own folder
#   conf  the folder of its configuration files
#
# QDROUTER_BIN is the folder of qdrouterd, qdstat and qdmanage, bin/ unless set.

root=$(cd "$here/../.." && pwd)
bin=${QDROUTER_BIN:-$root/bin}
python=$root/examples/python
work=$(mktemp -d)
pids=

end() {
    # SIGKILL: RabbitMQ would take its time, and nothing here outlives the demo.
    for pid in $pids; do kill -KILL "$pid" 2>/dev/null || :; done
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
            tail -n 20 "$work"/*.log >&2
            exit 1
        fi
        sleep 0.2
    done
}

ended() { ! kill -0 "$1"; }

# start a router by its letter, and say with $started which process it is
start() {
    "$bin/qdrouterd" -c "$conf/router-$1/qdrouterd.conf" >"$work/$1.log" 2>&1 &
    started=$!
    pids="$pids $started"
}

# port of a router's listener for clients, the first of its configuration, from its log
port() { sed -n 's/.*Listening on .*:\([0-9]*\)\( (clients)\)\{0,1\}$/\1/p' "$work/$1.log" | head -n 1; }
listens() { [ -n "$(port "$1")" ]; }
knows() { "$bin/qdstat" -b "127.0.0.1:$1" -n | grep -q "$2"; }

# network LETTER...: until these routers listen and know each other
network() {
    for r in "$@"; do until_true 20 listens "$r"; done
    for r in "$@"; do
        for id in $(printf '%s\n' "$@" | tr a-z A-Z); do until_true 20 knows "$(port "$r")" "Router.$id"; done
    done
}

# send ten messages until each is accepted: send PORT ADDRESS. sending begins it,
# and sent waits for its end.
send() { sending "$@" && sent; }

sending() {
    "$root/examples/path-redundancy/sender.py" "amqp://127.0.0.1:$1/$2" 10 >"$work/sent" &
    sender=$!
    pids="$pids $sender"
}

sent() {
    until_true 60 ended "$sender"
    confirmed=$(grep -c 'was accepted$' "$work/sent" || :)
    echo "$confirmed messages confirmed"
    [ "$confirmed" = 10 ]
}

# receive ten messages: receive PORT ADDRESS; receiving and received likewise.
receive() { receiving "$@" && received; }

receiving() {
    "$python/receiver.py" "amqp://127.0.0.1:$1/$2" 10 >"$work/received" &
    receiver=$!
    pids="$pids $receiver"
}

received() {
    until_true 60 ended "$receiver"
    cat "$work/received"
    [ "$(wc -l <"$work/received")" = 10 ]
}

# table PORT OPTION TEXT: of a report of qdstat the headings, and the rows with TEXT
table() { "$bin/qdstat" -b "127.0.0.1:$1" "$2" | sed 1,2d | grep -e '^[^ ]' -e '^  [a-z]* *dir ' -e '^  [a-z]* *addr ' -e '^  ===' -e " $3 "; }

# shows PORT OPTION CELLS: whether a report of qdstat has a row that begins so
shows() { "$bin/qdstat" -b "127.0.0.1:$1" "$2" | tr -s ' ' | grep -q "^ $3 "; }

# active PORT N: whether a router has N active autolinks
active() { [ "$("$bin/qdstat" -b "127.0.0.1:$1" --autolinks | grep -c ' active')" = "$2" ]; }

# broker_port FILE CONNECTOR: where a connector of a configuration file leads
broker_port() { sed -n "/name: $2\$/,/}/s/^ *port: //p" "$1"; }

# rabbitmq PORT: Debian's RabbitMQ with its AMQP 1.0 plug-in, on 127.0.0.1 and in a
# folder of the demo, for the user demo with the password demo. It returns at
# once; the server is there some ten seconds later.
rabbitmq() {
    server=/usr/lib/rabbitmq/bin/rabbitmq-server # the one in /usr/sbin is for root
    if ! [ -e $server ]; then
        echo 'RabbitMQ is not installed; "make rabbitmq" installs it' >&2
        exit 1
    fi
    dir=$work/rabbitmq-$1
    mkdir "$dir"
    echo '[rabbitmq_amqp1_0].' >"$dir/plugins"
    : >"$dir/env.conf"
    cat >"$dir/rabbitmq.conf" <<EOF
listeners.tcp.1 = 127.0.0.1:$1
auth_mechanisms.1 = PLAIN
default_user = demo
default_pass = demo
log.file = false
log.console = true
log.console.level = warning
disk_free_limit.absolute = 1MB
EOF
    # Its port mapper, and the port by which its tools reach it.
    set -- "$1" $(/usr/bin/python3 -c '
import socket
all = [socket.socket() for _ in range(2)]
for s in all:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in all))')
    epmd -port "$2" -address 127.0.0.1 >"$dir.log" 2>&1 &
    pids="$pids $!"
    env -i PATH="$PATH" LANG=C.UTF-8 HOME="$dir" \
        ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT="$2" RABBITMQ_DIST_PORT="$3" \
        RABBITMQ_NODENAME="demo$1@localhost" RABBITMQ_CONF_ENV_FILE="$dir/env.conf" \
        RABBITMQ_MNESIA_BASE="$dir/mnesia" RABBITMQ_LOG_BASE="$dir/logs" RABBITMQ_PID_FILE="$dir/pid" \
        RABBITMQ_CONFIG_FILE="$dir/rabbitmq.conf" RABBITMQ_ADVANCED_CONFIG_FILE="$dir/advanced.config" \
        RABBITMQ_ENABLED_PLUGINS_FILE="$dir/plugins" RABBITMQ_ALLOW_INPUT=1 \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-noinput +B i +S 2:2 +A 4 -kernel inet_dist_use_interface {127,0,0,1}' \
        $server >>"$dir.log" 2>&1 &
    pids="$pids $!"
}
