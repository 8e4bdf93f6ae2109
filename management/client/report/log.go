package report

import (
	"fmt"
	"time"
)

// log is --log (MG 13.14).
func (p *printer) log(bool) error {
	entries, err := p.agent.Log(p.ctx, max(p.opts.Limit, 0))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if len(e) < 6 {
			continue
		}
		seconds, _ := number(e[5])
		fmt.Fprintf(p.out, "%s %s (%s) %s\n", time.Unix(seconds, 0).Format(time.ANSIC), text(e[0]), text(e[1]), text(e[2]))
	}
	return nil
}

// everything is --all-entities (MG 13.2). The groups of vhosts are wide and are
// shown on demand only.
func (p *printer) everything(frame bool) error {
	if err := p.frame(frame); err != nil {
		return err
	}
	for _, show := range []func(*printer, bool) error{
		(*printer).links, (*printer).addresses, (*printer).connections, (*printer).autoLinks, (*printer).linkRoutes,
		(*printer).general, (*printer).memory, (*printer).policy, (*printer).vhosts, (*printer).vhostStats,
	} {
		if err := show(p, false); err != nil {
			return err
		}
		fmt.Fprintln(p.out)
	}
	return nil
}
