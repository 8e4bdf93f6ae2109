package tool

import (
	"context"
	"strings"

	"qdrouter/config"
	"qdrouter/management/client/cli"
	"qdrouter/management/client/manage"
)

// Qdmanage returns the command that reads and changes the management entities
// of a router (MG 12).
func Qdmanage(version string) *cli.Command {
	var connection cli.Connection
	var options manage.Options

	common := cli.NewFlags()
	common.CountP("verbose", "v", "accepted, and of no effect")

	flags := cli.NewFlags()
	connection.TargetFlags(flags)
	indent := cli.Number(2)
	flags.StringVar(&options.Type, "type", "", "`TYPE` of the entity")
	flags.StringVar(&options.Name, "name", "", "`NAME` of the entity")
	flags.StringVar(&options.Identity, "identity", "", "`ID`, the identity of the entity")
	flags.Var(&indent, "indent", "indent JSON by `INDENT` columns, -1 for one line (default 2)")
	flags.BoolVar(&options.Stdin, "stdin", false, "read attributes from standard input: a JSON map or a list of maps")
	flags.StringVar(&options.Body, "body", "", "send `BODY`, a JSON value, with an operation that is not a standard one")
	flags.StringVar(&options.Properties, "properties", "",
		"send `PROPERTIES`, a JSON map, as application properties of an operation that is not a standard one")

	values := connection.Values()
	for _, t := range config.Types() {
		if t.Kind != config.KindBase && t.Kind != config.KindEmbedded {
			values["type"] = append(values["type"], t.ShortName())
		}
	}
	return &cli.Command{
		Name:      "qdmanage <operation>",
		Intro:     "Standard operations: " + strings.Join(manage.Operations, ", ") + ". GET-OPERATIONS tells which others there are.",
		Version:   version,
		Arguments: true,
		First:     strings.Fields(strings.ToLower(strings.Join(manage.Operations, " "))),
		Values:    values,
		Groups: []cli.Group{
			{Flags: common},
			{Flags: flags},
			{Title: "Connection Options", Flags: connection.Flags()},
		},
		Run: func(ctx context.Context, args []string, s cli.Streams) error {
			options.Indent = int(indent)
			options.Named, options.Identified = flags.Changed("name"), flags.Changed("identity")
			task, err := manage.Parse(args, options)
			if err != nil {
				return err
			}
			conn, address, err := connection.Dial(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			agent, err := conn.Open(ctx, address)
			if err != nil {
				return err
			}
			return task.Run(ctx, agent, s.In, s.Out, s.Err)
		},
	}
}
