// Command qdmanage reads and changes the management entities of a router
// (MG 12).
package main

import (
	"os"

	"qdrouter/management/client/cli"
	"qdrouter/management/client/tool"
)

// version is set by the linker.
var version string

func main() { os.Exit(command().Main(os.Args[1:], cli.OS())) }

func command() *cli.Command { return tool.Qdmanage(cli.Version(version)) }
