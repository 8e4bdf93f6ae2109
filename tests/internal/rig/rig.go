// Package rig starts what the whole-system tests need: the programs of this
// module as real processes, and clients written with the AMQP libraries their
// users know.
//
// A test package calls [Main] from its TestMain, which builds the programs
// once. A test then starts routers with [Start], each on a port the system
// chooses, runs client programs against them with [Python] and [Node], and
// looks into them with [Router.Query], [Router.Qdstat] and [Router.Qdmanage].
// Whatever a test starts ends with the test.
//
// Client programs print one line of JSON, their report, and end with status 0;
// anything else fails the test that ran them.
//
// The environment changes what is run:
//
//	QDROUTER_BIN              folder of qdrouterd, qdstat and qdmanage to test, built elsewhere
//	QDROUTER_RACE=1           build them with the race detector
//	QDROUTER_FULL=1           full counts where a test has a short form (see [Scale])
//	QDROUTER_REQUIRE_CLIENTS=1  a missing client library fails a test instead of skipping it
package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Version is stamped into the programs that [Main] builds.
const Version = "0.0.0-tests"

// bin is the folder of the programs under test. Main sets it before any test
// runs.
var bin string

// Main builds the programs, runs the tests of m and returns the exit status
// for os.Exit.
func Main(m *testing.M) int {
	bin = os.Getenv("QDROUTER_BIN")
	if bin == "" {
		dir, err := os.MkdirTemp("", "qdrouter-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		args := []string{"build", "-ldflags", "-X main.version=" + Version, "-o", dir + "/"}
		if Raced() {
			args = append(args, "-race")
		}
		build := exec.Command("go", append(args, "./cmd/...")...)
		build.Dir = Root()
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "building the programs under test:", err)
			return 1
		}
		bin = dir
	}
	defer func() {
		for _, dir := range scratch {
			os.RemoveAll(dir)
		}
	}()
	return m.Run()
}

// Root returns the root folder of the repository.
func Root() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		panic("rig: no source position")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Program returns the path of one of the programs under test.
func Program(name string) string { return filepath.Join(bin, name) }

// Foreign reports whether the programs under test were built elsewhere, so
// that nothing is known of their version.
func Foreign() bool { return os.Getenv("QDROUTER_BIN") != "" }

// Raced reports whether the programs under test carry the race detector, so
// that their memory says nothing.
func Raced() bool { return os.Getenv("QDROUTER_RACE") == "1" }

// Scale returns full when QDROUTER_FULL=1 asks for a case's full counts, and
// short otherwise.
func Scale(short, full int) int {
	if os.Getenv("QDROUTER_FULL") == "1" {
		return full
	}
	return short
}
