package main

import (
	"bytes"
	"context"
	"sync"

	"github.com/Azure/go-amqp"
)

// send sends texts, or one message of a size, and gives what became of how many.
func send(ctx context.Context, sender *amqp.Sender, r *request) (any, error) {
	messages := make([]*amqp.Message, 0, len(r.Bodies)+1)
	for _, body := range r.Bodies {
		messages = append(messages, amqp.NewMessage([]byte(body)))
	}
	if r.Size > 0 {
		messages = append(messages, amqp.NewMessage(patterned(r.Size)))
	}
	if r.AtOnce > 0 {
		return nil, sendAtOnce(ctx, sender, messages, r.AtOnce)
	}
	if r.Settled {
		for _, message := range messages {
			if err := sender.Send(ctx, message, &amqp.SendOptions{Settled: true}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	return sendWithReceipts(ctx, sender, messages)
}

// sendWithReceipts waits for the outcomes when all messages are on their way.
func sendWithReceipts(ctx context.Context, sender *amqp.Sender, messages []*amqp.Message) (any, error) {
	receipts := make([]amqp.SendReceipt, 0, len(messages))
	for _, message := range messages {
		receipt, err := sender.SendWithReceipt(ctx, message, nil)
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, receipt)
	}
	outcomes := map[string]int{}
	for _, receipt := range receipts {
		state, err := receipt.Wait(ctx)
		if err != nil {
			return nil, err
		}
		switch state := state.(type) {
		case *amqp.StateAccepted:
			outcomes["accepted"]++
		case *amqp.StateRejected:
			if state.Error != nil {
				return nil, state.Error
			}
			outcomes["rejected"]++
		case *amqp.StateReleased:
			outcomes["released"]++
		case *amqp.StateModified:
			outcomes["modified"]++
		}
	}
	return outcomes, nil
}

// sendAtOnce has many senders wait for their outcome at the same time; the order is lost.
func sendAtOnce(ctx context.Context, sender *amqp.Sender, messages []*amqp.Message, atOnce int) error {
	places := make(chan struct{}, atOnce)
	return all(len(messages), func(number int) error {
		places <- struct{}{}
		defer func() { <-places }()
		return sender.Send(ctx, messages[number], nil)
	})
}

// all calls for every number at the same time, and gives one of the errors.
func all(count int, call func(int) error) error {
	var group sync.WaitGroup
	failures := make(chan error, count)
	for number := range count {
		group.Go(func() {
			if err := call(number); err != nil {
				failures <- err
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// patterned gives bytes that differ from place to place, so that parts in a wrong order show.
func patterned(size int) []byte {
	data := make([]byte, size)
	for place := range data {
		data[place] = byte(place * 31 / 7)
	}
	return data
}

func isPatterned(data []byte) bool {
	return bytes.Equal(data, patterned(len(data)))
}
