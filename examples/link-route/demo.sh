#!/bin/sh
# A link route: clients on Router.A have links of their own to a broker that only
# Router.C can reach, two routers away.
#
#   demo.sh [FOLDER]   configuration files, instead of those beside this script
set -eu

here=$(cd "$(dirname "$0")" && pwd)
conf=${1:-$here}
. "$here/../lib.sh"
address=b2.event-queue

say "RabbitMQ and three routers start"
rabbitmq "$(broker_port "$conf/router-c/qdrouterd.conf" broker)"
broker=$!
start c
start b
start a
network a b c
pa=$(port a) pb=$(port b) pc=$(port c)
until_true 120 shows "$pc" --linkroutes "b2 in linkBalanced active"
"$bin/qdstat" -b "127.0.0.1:$pc" --linkroutes
say "Router.A knows where they lead"
for p in "$pa" "$pb"; do until_true 20 shows "$p" -a "link-out b2 linkBalanced - 0 1"; done
table "$pa" -a b2

say "a sender on Router.A"
send "$pa" "$address"
say "a receiver on Router.A"
receive "$pa" "$address"

say "the broker is killed: its link routes are not active, and Router.A refuses links"
kill -KILL "$broker"
until_true 20 shows "$pc" --linkroutes "b2 in linkBalanced inactive"
"$bin/qdstat" -b "127.0.0.1:$pc" --linkroutes
until_true 20 shows "$pa" -a "link-out b2 linkBalanced - 0 0"
"$python/receiver.py" "amqp://127.0.0.1:$pa/$address" 10 2>&1
