// Sender sends messages to an address and prints what became of each.
//
//	go run ./examples/go/sender [-url amqp://127.0.0.1:5672] [-address hello] [-count 1]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/Azure/go-amqp"
)

func main() {
	url := flag.String("url", "amqp://127.0.0.1:5672", "the router")
	address := flag.String("address", "hello", "where to send to")
	count := flag.Int("count", 1, "how many messages to send")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := send(ctx, *url, *address, *count); err != nil {
		log.Fatal(err)
	}
}

func send(ctx context.Context, url, address string, count int) error {
	conn, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	sender, err := session.NewSender(ctx, address, nil)
	if err != nil {
		return err
	}
	for i := range count {
		// Waits for credit: the router grants it once somebody receives from
		// the address.
		receipt, err := sender.SendWithReceipt(ctx, &amqp.Message{Value: fmt.Sprintf("message %d", i+1)}, nil)
		if err != nil {
			return err
		}
		outcome, err := receipt.Wait(ctx)
		if err != nil {
			return err
		}
		if _, accepted := outcome.(*amqp.StateAccepted); accepted {
			fmt.Printf("message %d was accepted\n", i+1)
		} else {
			fmt.Printf("message %d was not: %+v\n", i+1, outcome)
		}
	}
	return nil
}
