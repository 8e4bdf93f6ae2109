#!/bin/sh
# Path redundancy: ten messages from Router.A to a receiver on Router.B, B is
# killed, ten more to the receiver on Router.C.
#
#   demo.sh [FOLDER]   configuration files, instead of those beside this script
set -eu

here=$(cd "$(dirname "$0")" && pwd)
conf=${1:-$here}
. "$here/../lib.sh"
address=my_address

ten() { # from port to port
    receiving "$2" "$address"
    send "$1" "$address"
    received
}

start b
b=$started
start c
start a
network a b c
pa=$(port a) pb=$(port b) pc=$(port c)
say "three routers; who knows whom, as Router.A sees it"
"$bin/qdstat" -b "127.0.0.1:$pa" -n

say "sender on Router.A, receiver on Router.B"
ten "$pa" "$pb"
"$bin/qdstat" -b "127.0.0.1:$pa" -a

say "Router.B is killed; the receiver moves to Router.C"
kill -KILL "$b"
ten "$pa" "$pc"
"$bin/qdstat" -b "127.0.0.1:$pa" -a
