// Command brokerd is the broker of package broker as a process of its own, that
// a test may kill and start again.
//
// It says "listening on HOST:PORT" and then does what it reads, a line each,
// answering each line with one: the result, or "ok".
//
//	add QUEUE      makes a queue
//	remove QUEUE   deletes one, with its messages
//	depth QUEUE    says how many messages it has, -1 when there is none
//	put QUEUE N    adds N messages whose bodies are the numbers from 0 on
//	links          says how many links are attached
//	drop           cuts every connection
//
// It ends when its input does.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"qdrouter/amqp"
	"qdrouter/tests/internal/broker"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "brokerd:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	var o broker.Options
	var dial broker.DialOptions
	o.Users = map[string]string{}
	flags := flag.NewFlagSet("brokerd", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on; none if empty")
	connect := flags.String("connect", "", "address of a router to connect to, again and again")
	credit := flags.Uint("credit", 100, "credit of a link to the broker")
	quiet := flags.Bool("quiet", false, "do not log")
	flags.StringVar(&o.ContainerID, "container", "broker", "container id")
	flags.StringVar(&o.Dir, "dir", "", "folder of the journal")
	flags.BoolVar(&o.Create, "create", false, "make queues when they are attached to")
	flags.BoolVar(&o.Anonymous, "anonymous", false, "let others than users in")
	flags.Uint64Var(&o.MaxMessageSize, "max-message-size", 0, "octets of a message")
	flags.StringVar(&dial.Hostname, "dial-hostname", "", "hostname told to the router")
	flags.Func("queue", "a queue; may be repeated", func(v string) error { o.Queues = append(o.Queues, v); return nil })
	flags.Func("hostname", "a hostname served; may be repeated", func(v string) error { o.Hostnames = append(o.Hostnames, v); return nil })
	flags.Func("user", "USER:PASSWORD let in; may be repeated", func(v string) error {
		name, password, ok := strings.Cut(v, ":")
		if !ok {
			return errors.New("no password")
		}
		o.Users[name] = password
		return nil
	})
	flags.Func("dial-user", "USER:PASSWORD told to the router", func(v string) error {
		dial.User, dial.Password, _ = strings.Cut(v, ":")
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Credit = uint32(*credit)
	if !*quiet {
		o.Logf = log.New(os.Stderr, "brokerd: ", log.LstdFlags|log.Lmicroseconds).Printf
	}
	b, err := broker.New(o)
	if err != nil {
		return err
	}
	defer b.Close()
	if *listen != "" {
		address, err := b.Listen(*listen)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "listening on", address)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if *connect != "" {
		go stayConnected(ctx, b, *connect, dial)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fmt.Fprintln(out, obey(b, strings.Fields(lines.Text())))
	}
	return lines.Err()
}

// retryAfter is the time between two attempts to connect.
const retryAfter = 200 * time.Millisecond

func stayConnected(ctx context.Context, b *broker.Broker, address string, o broker.DialOptions) {
	for {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		c, err := b.Dial(attempt, address, o)
		cancel()
		if err == nil {
			select {
			case <-c.Done():
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return
		}
	}
}

// obey does one line and returns the answer.
func obey(b *broker.Broker, words []string) string {
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch word(0) {
	case "add":
		b.AddQueue(word(1))
	case "remove":
		b.RemoveQueue(word(1))
	case "depth":
		return strconv.Itoa(b.Depth(word(1)))
	case "put":
		n, err := strconv.Atoi(word(2))
		if err != nil {
			return "error: " + err.Error()
		}
		for i := range n {
			m := amqp.Message{Header: &amqp.Header{Durable: true}, Body: strconv.Itoa(i)}
			if err := b.Put(word(1), m.Append(nil)); err != nil {
				return "error: " + err.Error()
			}
		}
	case "links":
		return strconv.Itoa(len(b.Links()))
	case "drop":
		for _, c := range b.Conns() {
			c.Drop()
		}
	default:
		return "error: unknown command"
	}
	return "ok"
}
