package tool

import (
	"context"
	"time"

	"qdrouter/management/client/cli"
	"qdrouter/management/client/report"
)

// Qdstat returns the command that shows what a router, or every router of a
// network, is doing (MG 13).
func Qdstat(version string) *cli.Command {
	var connection cli.Connection
	options := report.Options{Now: time.Now}

	common := cli.NewFlags()
	verbose := common.CountP("verbose", "v", "show more columns")

	display := cli.NewFlags()
	chosen := make([]*bool, len(report.Reports))
	for i, r := range report.Reports {
		chosen[i] = display.BoolP(r.Name, r.Short, false, r.Usage)
		if r.Added {
			cli.MarkAdded(display, r.Name)
		}
	}

	target := cli.NewFlags()
	target.BoolVar(&options.AllRouters, "all-routers", false, "show every router of the network, one after the other")
	connection.TargetFlags(target)

	output := cli.NewFlags()
	var limit cli.Number
	output.Var(&limit, "limit", "ask for at most `LIMIT` rows (0 or absent: all)")
	output.BoolVar(&options.CSV, "csv", false, "print tables as comma-separated values")

	output.BoolVar(&options.JSON, "json", false, "print one JSON document, with every attribute, instead of tables")
	var watch cli.Seconds
	output.Var(&watch, "watch", "show the report again every `SECONDS` seconds, with rates, until interrupted")
	cli.MarkAdded(output, "json", "watch")

	return &cli.Command{
		Name:    "qdstat",
		Version: version,
		Values:  connection.Values(),
		Groups: []cli.Group{
			{Flags: common},
			{Title: "Display", Intro: "Choose what to show.", Exclusive: true, Flags: display},
			{Title: "Target", Intro: "Choose the router to ask. The default is the one connected to.", Exclusive: true, Flags: target},
			{Flags: output},
			{Title: "Connection Options", Flags: connection.Flags()},
		},
		Run: func(ctx context.Context, _ []string, s cli.Streams) error {
			switch {
			case options.JSON && options.CSV:
				return cli.UsageError("argument --json: not allowed with argument --csv")
			case output.Changed("watch") && watch.Duration() <= 0:
				return cli.UsageError("argument --watch: must be more than 0 seconds")
			}
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
			if output.Changed("watch") {
				return shown.Watch(ctx, conn.Open, address, options, report.Screen{
					Every: watch.Duration(), Out: s.Out, Flush: s.Flush, Terminal: s.Terminal,
				})
			}
			return shown.Run(ctx, conn.Open, address, options, s.Out)
		},
	}
}
