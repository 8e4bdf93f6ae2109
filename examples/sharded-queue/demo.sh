#!/bin/sh
# A sharded queue: ten messages to one address go into the queues of two brokers,
# and a receiver from that address gets them all.
#
#   demo.sh [FOLDER]   configuration files, instead of those beside this script
set -eu

here=$(cd "$(dirname "$0")" && pwd)
conf=${1:-$here}
. "$here/../lib.sh"
address=my_queue

say "two RabbitMQ servers and a router start"
for broker in BROKER1 BROKER2; do rabbitmq "$(broker_port "$conf/router-a/qdrouterd.conf" "$broker")"; done
start a
until_true 20 listens a
pa=$(port a)
until_true 120 active "$pa" 4
"$bin/qdstat" -b "127.0.0.1:$pa" --autolinks

say "ten messages; there is no receiver"
send "$pa" "$address"
say "each broker has five"
table "$pa" -l "$address"

say "a receiver"
receive "$pa" "$address"
say "five came from each broker"
table "$pa" -l "$address"
