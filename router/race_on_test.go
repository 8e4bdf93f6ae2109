//go:build race

package router

// underRace: the race detector makes pools forget at random, so that allocations cannot be
// counted.
const underRace = true
