package main

import (
	"context"
	"fmt"

	"github.com/Azure/go-amqp"
)

// closeAtOnce closes all of these at the same time. What was closed with what it belongs to may say so.
func (p *peer) closeAtOnce(ctx context.Context, r *request) (any, error) {
	return nil, all(len(r.Names), func(number int) error {
		err := p.close(ctx, r.Names[number])
		switch codeOf(err) {
		case "session", "connection":
			return nil
		}
		return err
	})
}

// sessionsAtOnce begins so many sessions at the same time and ends each as soon as it has begun.
func (p *peer) sessionsAtOnce(ctx context.Context, r *request) (any, error) {
	return nil, all(r.Count, func(int) error {
		session, err := p.connections[r.Of].NewSession(ctx, nil)
		if err != nil {
			return err
		}
		return session.Close(ctx)
	})
}

// sendersAtOnce has so many senders on one session, each of which attaches, sends and detaches again and again.
func (p *peer) sendersAtOnce(ctx context.Context, r *request) (any, error) {
	session := p.sessions[r.Of]
	return nil, all(r.AtOnce, func(number int) error {
		for again := range r.Count {
			sender, err := session.NewSender(ctx, r.Address, nil)
			if err != nil {
				return err
			}
			message := amqp.NewMessage([]byte(fmt.Sprintf("%d %d", number, again)))
			message.Data = append(message.Data, patterned(r.Size))
			if err := sender.Send(ctx, message, nil); err != nil {
				return err
			}
			if err := sender.Close(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// receiveAtOnce reads with many receivers on one session at the same time, and gives how many bytes each has seen.
func (p *peer) receiveAtOnce(ctx context.Context, r *request) (any, error) {
	seen := make([]int, len(r.Names))
	err := all(len(r.Names), func(number int) error {
		receiver := p.receivers[r.Names[number]]
		for range r.Count {
			message, err := receiver.handle.Receive(ctx, nil)
			if err != nil {
				return err
			}
			if !isPatterned(message.GetData()) {
				return fmt.Errorf("receiver %d: other bytes than were sent", number)
			}
			seen[number] += len(message.GetData())
			if err := receiver.handle.AcceptMessage(ctx, message); err != nil {
				return err
			}
		}
		return nil
	})
	return seen, err
}

// withNoTimeLeft tries so often with a context that is cancelled already, and gives the kinds of errors.
func (p *peer) withNoTimeLeft(_ context.Context, r *request) (any, error) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tries := map[string]func() error{
		"session":  func() error { _, err := p.connections[r.Of].NewSession(ctx, nil); return err },
		"sender":   func() error { _, err := p.sessions[r.Of].NewSender(ctx, r.Address, nil); return err },
		"receiver": func() error { _, err := p.sessions[r.Of].NewReceiver(ctx, r.Address, nil); return err },
		"send":     func() error { return p.senders[r.Of].Send(ctx, amqp.NewMessage([]byte("never")), nil) },
	}
	kinds := map[string]map[string]bool{}
	for name, try := range tries {
		kinds[name] = map[string]bool{}
		for range r.Count {
			if err := try(); err != nil {
				kinds[name][codeOf(err)] = true
			} else {
				kinds[name]["none"] = true
			}
		}
	}
	return kinds, nil
}
