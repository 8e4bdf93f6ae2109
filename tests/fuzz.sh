#!/bin/bash
# fuzz.sh DURATION: every decoder under random input, each fuzz target for that long.
#
# Go's fuzzer can end with "context deadline exceeded" just when its time is up, without an input
# that fails; on a busy machine it does so now and then. Only such a run is made again, twice at most.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# fuzz PACKAGE TARGET DURATION
fuzz() {
	for _ in 1 2 3; do
		"$go" test -run '^$' -fuzz "^$2\$" -fuzztime "$3" "$1" 2>&1 | tee "$out" && return
		grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input written' "$out" || return 1
	done
	return 1
}

for pkg in $(grep -l --include='*_test.go' -r '^func Fuzz' . | xargs -r -n1 dirname | sort -u); do
	for target in $("$go" test -list '^Fuzz' "$pkg" | grep '^Fuzz'); do
		echo "fuzz $pkg $target $1"
		fuzz "$pkg" "$target" "$1" || exit 1
	done
done
