package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

// peer holds what was asked for by name. Where a command names none of its kind, the one that is called "" is meant.
type peer struct {
	connections map[string]*amqp.Conn
	sessions    map[string]*amqp.Session
	senders     map[string]*amqp.Sender
	receivers   map[string]*receiving
}

type command func(context.Context, *request) (any, error)

func newPeer() *peer {
	return &peer{
		connections: map[string]*amqp.Conn{},
		sessions:    map[string]*amqp.Session{},
		senders:     map[string]*amqp.Sender{},
		receivers:   map[string]*receiving{},
	}
}

func (p *peer) commands() map[string]command {
	return map[string]command{
		"connect":   p.connect,
		"ended":     p.ended,
		"session":   p.session,
		"sender":    p.sender,
		"receiver":  p.receiver,
		"send":      func(ctx context.Context, r *request) (any, error) { return send(ctx, p.senders[r.To], r) },
		"send_rich": func(ctx context.Context, r *request) (any, error) { return nil, sendRich(ctx, p.senders[r.To]) },
		"receive":   func(ctx context.Context, r *request) (any, error) { return p.receivers[r.Of].receive(ctx, r) },
		"receive_rich": func(ctx context.Context, r *request) (any, error) {
			return p.receivers[r.Of].receiveRich(ctx)
		},
		"receive_end": func(ctx context.Context, r *request) (any, error) {
			return nil, p.receivers[r.Of].receiveEnd(ctx)
		},
		"prefetched": func(_ context.Context, r *request) (any, error) { return p.receivers[r.Of].prefetched(), nil },
		"issue": func(_ context.Context, r *request) (any, error) {
			return nil, p.receivers[r.Of].handle.IssueCredit(uint32(r.Count))
		},
		"drain": func(ctx context.Context, r *request) (any, error) {
			return nil, p.receivers[r.Of].handle.DrainCredit(ctx, nil)
		},
		"close":             func(ctx context.Context, r *request) (any, error) { return nil, p.close(ctx, r.Of) },
		"close_at_once":     p.closeAtOnce,
		"sessions_at_once":  p.sessionsAtOnce,
		"senders_at_once":   p.sendersAtOnce,
		"with_no_time_left": p.withNoTimeLeft,
		"receive_at_once":   p.receiveAtOnce,
	}
}

func (p *peer) connect(ctx context.Context, r *request) (any, error) {
	options := &amqp.ConnOptions{
		HostName:     r.Hostname,
		MaxFrameSize: r.MaxFrame,
		MaxSessions:  r.MaxSessions,
		IdleTimeout:  time.Duration(r.IdleTimeoutMs) * time.Millisecond,
	}
	switch r.Mechanism {
	case "PLAIN":
		options.SASLType = amqp.SASLTypePlain(r.User, r.Password)
	case "ANONYMOUS":
		options.SASLType = amqp.SASLTypeAnonymous()
	case "EXTERNAL":
		options.SASLType = amqp.SASLTypeExternal("")
	}
	scheme := "amqp"
	if r.Authority != "" {
		config, err := tlsConfig(r)
		if err != nil {
			return nil, err
		}
		options.TLSConfig = config
		scheme = "amqps"
	}
	made, err := amqp.Dial(ctx, fmt.Sprintf("%s://%s:%d", scheme, r.Host, r.Port), options)
	if err != nil {
		return nil, err
	}
	p.connections[r.As] = made
	return made.Properties(), nil
}

func tlsConfig(r *request) (*tls.Config, error) {
	authority, err := os.ReadFile(r.Authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("no certificate in " + r.Authority)
	}
	config := &tls.Config{RootCAs: roots, ServerName: r.Host}
	if r.Certificate != "" {
		own, err := tls.LoadX509KeyPair(r.Certificate, r.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// ended waits until a connection has ended, and gives why.
func (p *peer) ended(ctx context.Context, r *request) (any, error) {
	select {
	case <-p.connections[r.Of].Done():
		return nil, p.connections[r.Of].Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *peer) session(ctx context.Context, r *request) (any, error) {
	made, err := p.connections[r.Of].NewSession(ctx, &amqp.SessionOptions{MaxLinks: r.MaxLinks})
	if err == nil {
		p.sessions[r.As] = made
	}
	return nil, err
}

func (p *peer) sender(ctx context.Context, r *request) (any, error) {
	options := &amqp.SenderOptions{
		Name:                        r.Name,
		DynamicAddress:              r.Dynamic,
		SettlementMode:              senderMode(r.SenderMode),
		RequestedReceiverSettleMode: receiverMode(r.ReceiverMode),
		TargetCapabilities:          r.Capabilities,
	}
	made, err := p.sessions[r.Of].NewSender(ctx, r.Address, options)
	if err != nil {
		return nil, err
	}
	p.senders[r.As] = made
	return map[string]any{"address": made.Address(), "max_message": made.MaxMessageSize()}, nil
}

func (p *peer) receiver(ctx context.Context, r *request) (any, error) {
	options := &amqp.ReceiverOptions{
		Name:                      r.Name,
		DynamicAddress:            r.Dynamic,
		Credit:                    r.Credit,
		MaxMessageSize:            r.MaxMessage,
		SettlementMode:            receiverMode(r.ReceiverMode),
		RequestedSenderSettleMode: senderMode(r.SenderMode),
		SourceCapabilities:        r.Capabilities,
	}
	if r.Durable {
		options.SourceDurability = amqp.DurabilityUnsettledState
		options.SourceExpiryPolicy = amqp.ExpiryPolicyNever
	}
	switch offset := r.Offset.(type) {
	case string:
		options.Filters = append(options.Filters, amqp.NewLinkFilter(offsetFilter, 0, offset))
	case float64:
		options.Filters = append(options.Filters, amqp.NewLinkFilter(offsetFilter, 0, uint64(offset)))
	}
	if r.Selector != "" {
		options.Filters = append(options.Filters, amqp.NewSelectorFilter(r.Selector))
	}
	made, err := p.sessions[r.Of].NewReceiver(ctx, r.Address, options)
	if err != nil {
		return nil, err
	}
	p.receivers[r.As] = &receiving{handle: made}
	applied := map[string]any{}
	for _, name := range []string{offsetFilter, selectorFilter} {
		if value := made.LinkSourceFilterValue(name); value != nil {
			applied[name] = value
		}
	}
	return map[string]any{"address": made.Address(), "applied": applied}, nil
}

const (
	offsetFilter   = "rabbitmq:stream-offset-spec"
	selectorFilter = "apache.org:selector-filter:string"
)

func senderMode(name string) *amqp.SenderSettleMode {
	switch name {
	case "settled":
		return amqp.SenderSettleModeSettled.Ptr()
	case "unsettled":
		return amqp.SenderSettleModeUnsettled.Ptr()
	case "mixed":
		return amqp.SenderSettleModeMixed.Ptr()
	}
	return nil
}

func receiverMode(name string) *amqp.ReceiverSettleMode {
	switch name {
	case "first":
		return amqp.ReceiverSettleModeFirst.Ptr()
	case "second":
		return amqp.ReceiverSettleModeSecond.Ptr()
	}
	return nil
}

// close ends whatever has this name.
func (p *peer) close(ctx context.Context, name string) error {
	if found, ok := p.senders[name]; ok {
		return found.Close(ctx)
	}
	if found, ok := p.receivers[name]; ok {
		return found.handle.Close(ctx)
	}
	if found, ok := p.sessions[name]; ok {
		return found.Close(ctx)
	}
	return p.connections[name].Close()
}
