package report

import (
	"bytes"
	"context"
	"io"
	"time"

	"qdrouter/management/client"
)

// A Screen is where Watch draws.
type Screen struct {
	Every    time.Duration // between the starts of two draws
	Out      io.Writer
	Flush    func() error // shows what was written to Out
	Terminal bool         // draw over what is there
}

// clearScreen moves to the first column of the first row and clears what follows
// (ECMA-48: CUP, ED).
const clearScreen = "\x1b[H\x1b[J"

// Watch shows the report again and again, with the rate at which each counter
// grew since the draw before, until ctx ends or a draw fails. A draw is written at
// once; one that takes longer than Every delays the next. Off a terminal, reports
// follow each other with an empty line between them, and JSON documents are one
// line each.
func (r Report) Watch(ctx context.Context, open Open, address string, opts Options, s Screen) error {
	agents := make(map[string]*client.Agent)
	reuse := func(ctx context.Context, address string) (*client.Agent, error) {
		if agent := agents[address]; agent != nil {
			return agent, nil
		}
		agent, err := open(ctx, address)
		if err == nil {
			agents[address] = agent
		}
		return agent, err
	}
	ticks := time.NewTicker(s.Every)
	defer ticks.Stop()
	rates := new(rates)
	for first := true; ; first = false {
		rates.begin(opts.Now())
		var text bytes.Buffer
		err := r.run(ctx, reuse, address, opts, rates, &text)
		switch {
		case s.Terminal && !opts.JSON:
			io.WriteString(s.Out, clearScreen)
		case !first && !opts.JSON:
			io.WriteString(s.Out, "\n")
		}
		if _, err := s.Out.Write(text.Bytes()); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if err := s.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
	}
}
