#!/bin/sh
# Temporal decoupling: messages wait in a queue of RabbitMQ behind Router.B until
# somebody receives them. B is killed, and Router.C is told of the broker.
#
#   demo.sh [FOLDER]   configuration files, instead of those beside this script
set -eu

here=$(cd "$(dirname "$0")" && pwd)
conf=${1:-$here}
. "$here/../lib.sh"
address=my_queue

say "RabbitMQ and three routers start"
rabbitmq "$(broker_port "$conf/router-b/qdrouterd.conf" BROKER)"
start b
b=$started
start c
start a
network a b c
pa=$(port a) pb=$(port b) pc=$(port c)
until_true 120 active "$pb" 2
"$bin/qdstat" -b "127.0.0.1:$pb" --autolinks

say "ten messages to Router.A; there is no receiver"
send "$pa" "$address"
say "they are in the queue: as Router.B sees it"
until_true 20 shows "$pb" -a "mobile $address 0 balanced - 1 0 0 10 0"
table "$pb" -a "$address"

say "a receiver comes to Router.A"
receive "$pa" "$address"
say "as Router.B sees it"
until_true 20 shows "$pb" -a "mobile $address 1 balanced - 0 0 10 0 10"
table "$pb" -a "$address"
table "$pb" -l "$address"

say "Router.B is killed; ten more messages to Router.A wait for a way to the queue"
kill -KILL "$b"
until_true 20 ended "$b"
sending "$pa" "$address"

say "Router.C is told of the broker"
"$bin/qdmanage" -b "127.0.0.1:$pc" create --stdin <"$conf/broker.json"
sent
say "they are in the queue: as Router.C sees it"
until_true 20 shows "$pc" -a "mobile $address 0 balanced - 1 0 0 10 0"
table "$pc" -a "$address"

say "a receiver comes to Router.A"
receive "$pa" "$address"
say "as Router.C sees it"
until_true 20 shows "$pc" -a "mobile $address 1 balanced - 0 0 10 0 10"
table "$pc" -a "$address"
table "$pc" -l "$address"
