// Command qdstat shows what a router, or every router of a network, is doing
// (MG 13).
package main

import (
	"context"
	"os"
	"time"

	"qdrouter/management/client/cli"
	"qdrouter/management/client/report"
)

// version is set by the linker.
var version string

func main() { os.Exit(command().Main(os.Args[1:], cli.OS())) }

func command() *cli.Command {
	var connection cli.Connection
	options := report.Options{Now: time.Now}

	common := cli.NewFlags()
	verbose := common.CountP("verbose", "v", "show more columns")

	display := cli.NewFlags()
	chosen := make([]*bool, len(report.Reports))
	for i, r := range report.Reports {
		chosen[i] = display.BoolP(r.Name, r.Short, false, r.Usage)
	}

	target := cli.NewFlags()
	target.BoolVar(&options.AllRouters, "all-routers", false, "show every router of the network, one after the other")
	connection.TargetFlags(target)

	output := cli.NewFlags()
	var limit cli.Number
	output.Var(&limit, "limit", "ask for at most `LIMIT` rows (0 or absent: all)")
	output.BoolVar(&options.CSV, "csv", false, "print tables as comma-separated values")

	return &cli.Command{
		Name:    "qdstat",
		Version: cli.Version(version),
		Groups: []cli.Group{
			{Flags: common},
			{Title: "Display", Intro: "Choose what to show.", Exclusive: true, Flags: display},
			{Title: "Target", Intro: "Choose the router to ask. The default is the one connected to.", Exclusive: true, Flags: target},
			{Flags: output},
			{Title: "Connection Options", Flags: connection.Flags()},
		},
		Run: func(ctx context.Context, _ []string, s cli.Streams) error {
			options.Limit = int(limit)
			options.Verbose = *verbose > 0
			shown := report.Reports[0]
			for i, r := range report.Reports {
				if *chosen[i] {
					shown = r
				}
			}
			conn, address, err := connection.Dial(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			return shown.Run(ctx, conn.Open, address, options, s.Out)
		},
	}
}
