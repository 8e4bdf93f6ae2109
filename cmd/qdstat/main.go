// Command qdstat shows what a router, or every router of a network, is doing
// (MG 13).
package main

import (
	"os"

	"qdrouter/management/client/cli"
	"qdrouter/management/client/tool"
)

// version is set by the linker.
var version string

func main() { os.Exit(command().Main(os.Args[1:], cli.OS())) }

func command() *cli.Command { return tool.Qdstat(cli.Version(version)) }
