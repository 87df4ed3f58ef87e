package main

import (
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/ha"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

const superStreamConfirms = 10_000

type sender interface {
	Send(message message.StreamMessage) error
	Close() error
}

type batchSender interface {
	BatchSend(messages []message.StreamMessage) error
}

// producing is a producer, and what became of its messages.
type producing struct {
	handle   sender
	batch    int
	mutex    sync.Mutex
	sent     int
	outcomes map[string]int
	flood    sync.WaitGroup
}

func newProducing(environment *stream.Environment, r *request, told *told) (*producing, error) {
	p := &producing{batch: r.Batch, outcomes: map[string]int{}}
	if r.Super != "" {
		return p, p.openSuper(environment, r)
	}
	options := stream.NewProducerOptions().SetProducerName(r.Name)
	if r.SubEntry > 0 {
		options.SetSubEntrySize(r.SubEntry).SetCompression(compressionOf(r.Compression))
	}
	if r.Filtered {
		options.SetFilter(stream.NewProducerFilter(filterValue))
	}
	if r.Recovers {
		handle, err := ha.NewReliableProducer(environment, r.Stream, options, p.count)
		p.handle = handle
		go told.recovery(r.As, handle)
		return p, err
	}
	handle, err := environment.NewProducer(r.Stream, options)
	if err != nil {
		return p, err
	}
	p.handle = handle
	confirms := handle.NotifyPublishConfirmation()
	go func() {
		for statuses := range confirms {
			p.count(statuses)
		}
	}()
	go told.closed(r.As, handle.NotifyClose())
	return p, nil
}

func (p *producing) openSuper(environment *stream.Environment, r *request) error {
	var routing stream.RoutingStrategy = stream.NewHashRoutingStrategy(firstWord)
	if r.Route == "key" {
		routing = stream.NewKeyRoutingStrategy(firstWord)
	}
	handle, err := environment.NewSuperStreamProducer(r.Super, stream.NewSuperStreamProducerOptions(routing))
	if err != nil {
		return err
	}
	p.handle = handle
	confirms := handle.NotifyPublishConfirmation(superStreamConfirms)
	go func() {
		for confirm := range confirms {
			p.count(confirm.ConfirmationStatus)
		}
	}()
	return nil
}

func (p *producing) lastID() (int64, error) {
	return p.handle.(*stream.Producer).GetLastPublishingId()
}

// send sends, waits until all of it is answered, and gives how many answers of each kind there were.
func (p *producing) send(r *request) (map[string]int, error) {
	messages := make([]message.StreamMessage, 0, len(r.Bodies))
	for number, body := range r.Bodies {
		made := amqp.NewMessage([]byte(body))
		if r.FirstID != nil {
			made.SetPublishingId(*r.FirstID + int64(number))
		}
		messages = append(messages, made)
	}
	p.mutex.Lock()
	p.sent, p.outcomes = len(messages), map[string]int{}
	p.mutex.Unlock()
	for start := 0; start < len(messages); start += max(p.batch, 1) {
		if err := p.sendSome(messages[start:min(start+max(p.batch, 1), len(messages))]); err != nil {
			return nil, err
		}
	}
	return p.answered(), nil
}

func (p *producing) sendSome(messages []message.StreamMessage) error {
	if p.batch > 0 {
		return p.handle.(batchSender).BatchSend(messages)
	}
	return p.handle.Send(messages[0])
}

// startFlood sends on and on, until the producer is no more.
func (p *producing) startFlood() (any, error) {
	p.flood.Add(1)
	go func() {
		defer p.flood.Done()
		for number := 0; ; number++ {
			p.mutex.Lock()
			p.sent++
			p.mutex.Unlock()
			if p.handle.Send(amqp.NewMessage([]byte("flood "+strconv.Itoa(number)))) != nil {
				return
			}
		}
	}()
	return nil, nil
}

// flooded gives what became of a flood, once it has ended.
func (p *producing) flooded() (any, error) {
	p.flood.Wait()
	seen, _ := p.seen()
	seen["sent"] = p.sent
	return seen, nil
}

func (p *producing) count(statuses []*stream.ConfirmationStatus) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, status := range statuses {
		if status.IsConfirmed() {
			p.outcomes["confirmed"]++
		} else {
			p.outcomes[strconv.Itoa(int(status.GetErrorCode()))]++
		}
	}
}

func (p *producing) answered() map[string]int {
	waitUntil(func() bool {
		_, total := p.seen()
		return total >= p.sent
	})
	seen, _ := p.seen()
	return seen
}

// seen gives how many messages had each outcome, and how many that are in all.
func (p *producing) seen() (map[string]int, int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	total := 0
	for _, count := range p.outcomes {
		total += count
	}
	return maps.Clone(p.outcomes), total
}

// firstWord is the word by which messages are filtered and routed.
func firstWord(sent message.StreamMessage) string {
	word, _, _ := strings.Cut(string(sent.GetData()[0]), " ")
	return word
}

// filterValue gives none for a dash.
func filterValue(sent message.StreamMessage) string {
	if word := firstWord(sent); word != "-" {
		return word
	}
	return ""
}

func compressionOf(name string) stream.Compression {
	none := stream.Compression{}
	return map[string]stream.Compression{
		"none":   none.None(),
		"gzip":   none.Gzip(),
		"snappy": none.Snappy(),
		"lz4":    none.Lz4(),
		"zstd":   none.Zstd(),
	}[name]
}
