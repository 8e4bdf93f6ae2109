//go:build !race

package linkstate

const underRace = false
