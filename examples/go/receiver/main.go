// Receiver prints the messages of an address and accepts each.
//
//	go run ./examples/go/receiver [-url amqp://127.0.0.1:5672] [-address hello] [-count 0]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/Azure/go-amqp"
)

func main() {
	url := flag.String("url", "amqp://127.0.0.1:5672", "the router")
	address := flag.String("address", "hello", "where to receive from")
	count := flag.Int("count", 0, "how many messages to receive; 0 goes on until stopped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := receive(ctx, *url, *address, *count); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func receive(ctx context.Context, url, address string, count int) error {
	conn, err := amqp.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	receiver, err := session.NewReceiver(ctx, address, nil)
	if err != nil {
		return err
	}
	for i := 0; count == 0 || i < count; i++ {
		message, err := receiver.Receive(ctx, nil)
		if err != nil {
			return err
		}
		if message.Value != nil {
			fmt.Println(message.Value)
		} else {
			fmt.Printf("%s\n", message.GetData())
		}
		if err := receiver.AcceptMessage(ctx, message); err != nil {
			return err
		}
	}
	return nil
}
