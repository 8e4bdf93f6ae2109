// Command qdstat shows what a router, or every router of a network, is doing
// (MG 13).
package main

import (
	"os"
	"runtime"

	"qdrouter/management/client/cli"
	"qdrouter/management/client/tool"
)

// version is set by the linker.
var version string

func main() {
	// The tool waits for the router or has the router wait. On one processor it
	// spends a tenth less, and often it is the router's machine that it runs on.
	runtime.GOMAXPROCS(1)
	os.Exit(command().Main(os.Args[1:], cli.OS()))
}

func command() *cli.Command { return tool.Qdstat(cli.Version(version)) }
