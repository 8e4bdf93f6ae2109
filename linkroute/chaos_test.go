package linkroute

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"qdrouter/amqp"
)

// TestAutoLinkChaos: containers accept, refuse, accept and then refuse, keep silent, detach, end
// sessions, close and die at random, while autolinks are made and deleted. When they behave again every
// autolink has one link on each connection and is active in its time (RT A5, A7), and nothing is left
// when the autolinks have gone.
func TestAutoLinkChaos(t *testing.T) {
	for i := range 60 {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprint(i), func(t *testing.T) { bubble(t, func(g *rig) { autoLinkChaos(t, g, rand.New(rand.NewPCG(seed, 0))) }) }) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func autoLinkChaos(t *testing.T, g *rig, rng *rand.Rand) {
	s := NewAutoLinks(g.r)
	table := len(g.r.Addresses())
	well := false
	var silent []*link
	accept := func(k *link) {
		n := rng.IntN(6)
		switch {
		case well || n < 2:
			take(k)
		case n == 2:
			refuse(k)
		case n == 3:
			silent = append(silent, k)
		case n == 4:
			take(k)
			k.l.Detach(rng.IntN(2) == 0, &amqp.Error{Condition: "amqp:internal-error", Description: "no"})
		case n == 5:
			take(k)
			k.l.Session.End(nil)
		}
	}
	var containers []*peer
	for range 2 {
		containers = append(containers, g.container("broker", "B", accept))
	}
	var ids []uint64
	for range 80 {
		p := containers[rng.IntN(len(containers))]
		switch rng.IntN(8) {
		case 0, 1:
			al := AutoLink{Address: fmt.Sprint("q", rng.IntN(4)), Direction: []string{"in", "out"}[rng.IntN(2)], Phase: -1, Fallback: rng.IntN(4) == 0}
			if rng.IntN(2) == 0 {
				al.Connection = "broker"
			} else {
				al.ContainerID = "B"
			}
			made, err := s.Add(al)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, made.ID)
		case 2:
			if n := len(ids); n > 0 {
				i := rng.IntN(n)
				if err := s.Delete(ids[i]); err != nil {
					t.Fatal(err)
				}
				ids = append(ids[:i:i], ids[i+1:]...)
			}
		case 3:
			if n := len(p.links); n > 0 {
				if k := p.links[rng.IntN(n)]; k.l.Attached() && !k.l.Session.Ended() {
					k.l.Detach(rng.IntN(2) == 0, nil)
				}
			}
		case 4:
			if n := len(p.links); n > 0 {
				p.links[rng.IntN(n)].l.Session.End(nil)
			}
		case 5:
			for _, k := range silent {
				if !k.l.Session.Ended() {
					take(k)
				}
			}
			silent = nil
		case 6:
			i := rng.IntN(len(containers))
			if rng.IntN(2) == 0 {
				containers[i].die()
			} else {
				containers[i].eng.Close(nil)
			}
			if rng.IntN(2) == 0 {
				g.run()
			}
			containers[i] = g.container("broker", "B", accept)
		case 7:
			time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
		}
		if rng.IntN(2) == 0 {
			g.run()
		}
	}
	well = true
	for range 3 { // what was on its way, then the retries
		g.run()
		for _, k := range silent {
			if !k.l.Session.Ended() {
				take(k)
			}
		}
		silent = nil
		g.run()
		time.Sleep(laterRetry + time.Millisecond)
	}
	g.run()
	links := 0
	for _, p := range containers {
		for _, k := range p.links {
			if k.l.Attached() && !k.l.Session.Ended() {
				links++
			}
		}
	}
	if want := len(ids) * len(containers); links != want || len(g.r.Links()) != want {
		t.Errorf("%d links at the containers, %d here, want %d", links, len(g.r.Links()), want)
	}
	for _, al := range s.List() {
		if al.Status != "active" || al.Link == 0 {
			t.Errorf("autolink %+v", al)
		}
	}
	for _, id := range ids {
		if err := s.Delete(id); err != nil {
			t.Error(err)
		}
	}
	g.run()
	for _, p := range containers {
		for _, k := range p.links {
			if k.l.Attached() && !k.l.Session.Ended() {
				t.Errorf("link %s is left", k.l.Name)
			}
		}
	}
	if n := len(g.r.Links()); n != 0 {
		t.Errorf("%d links are left", n)
	}
	if n := len(g.r.Addresses()); n != table {
		t.Errorf("%d addresses, %d before", n, table)
	}
}
