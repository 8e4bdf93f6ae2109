package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/go-amqp"

	"qdrouter/tests/internal/rig"
)

// Two RabbitMQ servers run beside each other; messages go through a queue of
// each. When they end they leave no process.
func TestRabbitRig(t *testing.T) {
	var dirs []string
	t.Run("two servers", func(t *testing.T) {
		a, b := rig.StartRabbit(t, "q1"), rig.StartRabbit(t, "q1")
		dirs = []string{a.Dir(), b.Dir()}
		for _, r := range []*rig.Rabbit{a, b} {
			if len(processesOf(t, r.Dir())) == 0 {
				t.Fatal("no process has the server's folder in its environment")
			}
			s, ctx := dialAMQP(t, r.URL(), nil)
			sender, err := s.NewSender(ctx, "/queue/q1", nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"a", "b", "c"} {
				if err := sender.Send(ctx, &amqp.Message{Value: text}, nil); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "three messages", func() bool { return r.Depth(t, "q1") == 3 })
			receiver, err := s.NewReceiver(ctx, "/queue/q1", &amqp.ReceiverOptions{Credit: 3})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range 3 {
				m, err := receiver.Receive(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := receiver.AcceptMessage(ctx, m); err != nil {
					t.Fatal(err)
				}
				text, _ := m.Value.(string)
				got = append(got, text)
			}
			if !slices.Equal(got, []string{"a", "b", "c"}) {
				t.Errorf("received %q", got)
			}
			until(t, "an empty queue", func() bool { return r.Depth(t, "q1") == 0 })
		}
		if n := a.Depth(t, "later"); n != -1 {
			t.Errorf("depth %d of a queue that does not exist", n)
		}
		a.AddQueue(t, "later", true)
		if n := a.Depth(t, "later"); n != 0 {
			t.Errorf("depth %d of a new queue", n)
		}
		// What is durable outlives the server.
		s, ctx := dialAMQP(t, a.URL(), nil)
		sender, err := s.NewSender(ctx, "/amq/queue/later", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sender.Send(ctx, &amqp.Message{Header: &amqp.MessageHeader{Durable: true}, Value: "kept"}, nil); err != nil {
			t.Fatal(err)
		}
		a.Stop(t)
		a.Start(t)
		until(t, "the message", func() bool { return a.Depth(t, "later") == 1 })
		a.RemoveQueue(t, "later")
		if n := a.Depth(t, "later"); n != -1 {
			t.Errorf("depth %d of a deleted queue", n)
		}
		b.Kill(t) // what it keeps of its last second is its own affair
		b.Start(t)
	})
	for _, dir := range dirs {
		if left := processesOf(t, dir); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// processesOf returns the command lines of the processes whose environment
// names dir.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	envs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, path := range envs {
		env, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(env), dir) {
			continue // it is another user's, or has ended
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		list = append(list, string(line))
	}
	return list
}
