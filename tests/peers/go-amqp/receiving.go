package main

import (
	"context"
	"fmt"
	"reflect"

	"github.com/Azure/go-amqp"
)

// receiving is a receiver, and what is taken from it.
type receiving struct {
	handle *amqp.Receiver
}

// textMax is the size above which a message is told by its size.
const textMax = 1000

// receive takes so many messages and settles each as asked, or all together when so many are held.
func (c *receiving) receive(ctx context.Context, r *request) (any, error) {
	seen := []string{}
	held := []*amqp.Message{}
	for len(seen) < r.Count {
		message, err := c.handle.Receive(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("after %d messages: %w", len(seen), err)
		}
		seen = append(seen, textOf(message))
		held = append(held, message)
		if len(held) < r.Held && len(seen) < r.Count {
			continue
		}
		for _, message := range held {
			if err := c.settle(ctx, message, r.Settle); err != nil {
				return nil, fmt.Errorf("settling, after %d messages: %w", len(seen), err)
			}
		}
		held = held[:0]
	}
	return seen, nil
}

func (c *receiving) settle(ctx context.Context, message *amqp.Message, how string) error {
	switch how {
	case "none":
		return nil
	case "reject":
		reason := &amqp.Error{Condition: amqp.ErrCondNotAllowed, Description: "not wanted"}
		err := c.handle.RejectMessage(ctx, message, reason)
		// In mode second the server repeats the outcome as it settles, which the client takes for an error.
		if reflect.DeepEqual(err, reason) {
			return nil
		}
		return err
	case "release":
		return c.handle.ReleaseMessage(ctx, message)
	case "modify":
		annotations := amqp.Annotations{"x-opt-seen": "once"}
		return c.handle.ModifyMessage(ctx, message, &amqp.ModifyMessageOptions{DeliveryFailed: true, Annotations: annotations})
	}
	return c.handle.AcceptMessage(ctx, message)
}

// receiveEnd waits for what ends the receiver.
func (c *receiving) receiveEnd(ctx context.Context) error {
	message, err := c.handle.Receive(ctx, nil)
	if err == nil {
		return fmt.Errorf("a message came: %q", textOf(message))
	}
	return err
}

// prefetched gives all that is there already.
func (c *receiving) prefetched() []string {
	seen := []string{}
	for message := c.handle.Prefetched(); message != nil; message = c.handle.Prefetched() {
		seen = append(seen, textOf(message))
	}
	return seen
}

func textOf(message *amqp.Message) string {
	data := message.GetData()
	if len(data) <= textMax {
		return string(data)
	}
	if !isPatterned(data) {
		return "other bytes than were sent"
	}
	return fmt.Sprintf("%d bytes", len(data))
}
