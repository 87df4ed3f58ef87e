package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

const readBufferBytes = 1 << 20

// peer is an environment of the client, with the producers and consumers that were asked for, by name.
type peer struct {
	environment *stream.Environment
	producers   map[string]*producing
	consumers   map[string]*consuming
	told        *told
}

func newPeer() *peer {
	return &peer{producers: map[string]*producing{}, consumers: map[string]*consuming{}, told: &told{}}
}

func (p *peer) commands() map[string]func(*request) (any, error) {
	return map[string]func(*request) (any, error){
		"connect":  p.connect,
		"create":   p.create,
		"delete":   p.delete,
		"exists":   func(r *request) (any, error) { return p.environment.StreamExists(r.Stream) },
		"stats":    p.stats,
		"producer": p.producer,
		"last_id":  func(r *request) (any, error) { return p.producers[r.Of].lastID() },
		"send":     func(r *request) (any, error) { return p.producers[r.To].send(r) },
		"flood":    func(r *request) (any, error) { return p.producers[r.To].startFlood() },
		"flooded":  func(r *request) (any, error) { return p.producers[r.To].flooded() },
		"consumer": p.consumer,
		"take":     func(r *request) (any, error) { return p.consumers[r.Of].take(r.Count), nil },
		"store":    p.store,
		"stored":   func(r *request) (any, error) { return p.consumers[r.Of].stored() },
		"told":     func(r *request) (any, error) { return p.told.await(r.Count), nil },
		"close":    p.close,
		"disconnect": func(*request) (any, error) {
			return nil, p.environment.Close()
		},
	}
}

func (p *peer) connect(r *request) (any, error) {
	// With the client's own 8 KiB the loopback's large segments do not fit: 160 messages a second, from RabbitMQ as well.
	options := stream.NewEnvironmentOptions().SetHost(r.Host).SetPort(r.Port).SetReadBuffer(readBufferBytes).SetRPCTimeout(step)
	if r.User != "" {
		options.SetUser(r.User).SetPassword(r.Password)
	}
	if r.VHost != "" {
		options.SetVHost(r.VHost)
	}
	if r.Mechanism != "" {
		options.SetSaslConfiguration(r.Mechanism)
	}
	if r.Authority != "" {
		config, err := tlsConfig(r)
		if err != nil {
			return nil, err
		}
		options.IsTLS(true).SetTLSConfig(config)
	}
	environment, err := stream.NewEnvironment(options)
	p.environment = environment
	return nil, err
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

func (p *peer) create(r *request) (any, error) {
	if r.Partitions > 0 {
		return nil, p.environment.DeclareSuperStream(r.Stream, stream.NewPartitionsOptions(r.Partitions))
	}
	if r.Keys != nil {
		return nil, p.environment.DeclareSuperStream(r.Stream, stream.NewBindingsOptions(r.Keys))
	}
	options := stream.NewStreamOptions()
	if r.MaxAgeS > 0 {
		options.SetMaxAge(time.Duration(r.MaxAgeS) * time.Second)
	}
	if r.MaxLengthBytes > 0 {
		options.SetMaxLengthBytes(stream.ByteCapacity{}.B(r.MaxLengthBytes))
	}
	if r.SegmentBytes > 0 {
		options.SetMaxSegmentSizeBytes(stream.ByteCapacity{}.B(r.SegmentBytes))
	}
	return nil, p.environment.DeclareStream(r.Stream, options)
}

func (p *peer) delete(r *request) (any, error) {
	if r.Super != "" {
		return nil, p.environment.DeleteSuperStream(r.Super)
	}
	return nil, p.environment.DeleteStream(r.Stream)
}

func (p *peer) stats(r *request) (any, error) {
	stats, err := p.environment.StreamStats(r.Stream)
	if err != nil {
		return nil, err
	}
	seen := map[string]int64{}
	first, noFirst := stats.FirstOffset()
	committed, noCommitted := stats.CommittedChunkId()
	if noFirst == nil && noCommitted == nil {
		seen["first_offset"], seen["committed_chunk_id"] = first, committed
	}
	return seen, nil
}

func (p *peer) producer(r *request) (any, error) {
	made, err := newProducing(p.environment, r, p.told)
	p.producers[r.As] = made
	return nil, err
}

func (p *peer) consumer(r *request) (any, error) {
	made := newConsuming(p.environment, r, p.told)
	p.consumers[r.As] = made
	return nil, made.subscribe()
}

func (p *peer) store(r *request) (any, error) {
	found := p.consumers[r.Of]
	if r.Start == nil {
		return nil, found.storeAll()
	}
	return nil, found.store(found.request.Stream, int64(r.Start.(float64)))
}

func (p *peer) close(r *request) (any, error) {
	if found, ok := p.producers[r.Of]; ok {
		return nil, found.handle.Close()
	}
	return nil, p.consumers[r.Of].handle.Close()
}
