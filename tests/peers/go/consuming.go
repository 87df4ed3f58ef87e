package main

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/ha"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

type closer interface {
	Close() error
}

// consuming is a consumer, and what it was given.
type consuming struct {
	environment *stream.Environment
	request     *request
	told        *told
	handle      closer
	mutex       sync.Mutex
	taken       [][3]any
	last        map[string]int64
	active      map[string]bool
}

func newConsuming(environment *stream.Environment, r *request, told *told) *consuming {
	none, inactive := map[string]int64{}, map[string]bool{}
	return &consuming{environment: environment, request: r, told: told, last: none, active: inactive}
}

func (c *consuming) subscribe() error {
	r := c.request
	var err error
	switch {
	case r.Super != "":
		c.handle, err = c.subscribeSuper()
	case r.Recovers:
		consumer, failure := ha.NewReliableConsumer(c.environment, r.Stream, c.options(), c.add)
		if failure != nil {
			return failure
		}
		c.handle = consumer
		go c.told.recovery(r.As, consumer)
	default:
		consumer, failure := c.environment.NewConsumer(r.Stream, c.add, c.options())
		if failure != nil {
			return failure
		}
		c.handle = consumer
		go c.told.closed(r.As, consumer.NotifyClose())
	}
	return err
}

func (c *consuming) options() *stream.ConsumerOptions {
	r := c.request
	options := stream.NewConsumerOptions().SetOffset(c.start()).SetConsumerName(r.Name).SetCRCCheck(true)
	if r.Tracking == "auto" {
		options.SetAutoCommit(autoCommit(r))
	} else if r.Tracking != "" {
		options.SetManualCommit()
	}
	if r.Group {
		options.SetSingleActiveConsumer(stream.NewSingleActiveConsumer(c.updated))
	}
	if r.Filter != nil {
		options.SetFilter(stream.NewConsumerFilter(r.Filter, r.MatchUnfiltered, all))
	}
	if r.Credit > 0 {
		options.SetInitialCredits(r.Credit)
	}
	return options
}

func (c *consuming) subscribeSuper() (closer, error) {
	r := c.request
	options := stream.NewSuperStreamConsumerOptions().SetOffset(c.start()).SetConsumerName(r.Name)
	if r.Group {
		options.SetSingleActiveConsumer(stream.NewSingleActiveConsumer(c.updated))
	}
	return c.environment.NewSuperStreamConsumer(r.Super, c.add, options)
}

func (c *consuming) add(context stream.ConsumerContext, message *amqp.Message) {
	name, offset := context.Consumer.GetStreamName(), context.Consumer.GetOffset()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.taken = append(c.taken, [3]any{name, offset, string(message.GetData())})
	c.last[name] = offset
}

// take gives all messages so far, once there are so many: stream, offset and body of each.
func (c *consuming) take(count int) [][3]any {
	var seen [][3]any
	waitUntil(func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		seen = append([][3]any{}, c.taken...)
		return len(seen) >= count
	})
	return seen
}

// store stores an offset, and waits until the server has it.
func (c *consuming) store(streamName string, offset int64) error {
	if err := c.environment.StoreOffset(c.request.Name, streamName, offset); err != nil {
		return err
	}
	waitUntil(func() bool {
		stored, err := c.environment.QueryOffset(c.request.Name, streamName)
		return err == nil && stored == offset
	})
	return nil
}

// storeAll stores how far it came in each stream in which it is active.
func (c *consuming) storeAll() error {
	c.mutex.Lock()
	active := maps.Clone(c.active)
	c.mutex.Unlock()
	for streamName := range active {
		if err := c.storeReached(streamName); err != nil {
			return err
		}
	}
	return nil
}

func (c *consuming) storeReached(streamName string) error {
	c.mutex.Lock()
	reached, some := c.last[streamName]
	c.mutex.Unlock()
	if !some {
		return nil
	}
	return c.store(streamName, reached)
}

func (c *consuming) stored() (any, error) {
	offset, err := c.environment.QueryOffset(c.request.Name, c.request.Stream)
	if errors.Is(err, stream.OffsetNotFoundError) {
		return nil, nil
	}
	return offset, err
}

// updated: who becomes active goes on behind what the group stored, and stores how far it came when it steps down.
func (c *consuming) updated(streamName string, isActive bool) stream.OffsetSpecification {
	c.mutex.Lock()
	if isActive {
		c.active[streamName] = true
	} else {
		delete(c.active, streamName)
	}
	c.mutex.Unlock()
	if !isActive {
		c.told.add(c.request.As, "passive", streamName)
		if err := c.storeReached(streamName); err != nil {
			panic(err)
		}
		return stream.OffsetSpecification{}.Next()
	}
	c.told.add(c.request.As, "active", streamName)
	stored, err := c.environment.QueryOffset(c.request.Name, streamName)
	if err != nil {
		return stream.OffsetSpecification{}.First()
	}
	return stream.OffsetSpecification{}.Offset(stored + 1)
}

// start is where to begin: behind what is stored under the name, else where the request says.
func (c *consuming) start() stream.OffsetSpecification {
	r := c.request
	if r.Tracking != "" {
		if stored, err := c.environment.QueryOffset(r.Name, r.Stream); err == nil {
			return stream.OffsetSpecification{}.Offset(stored + 1)
		}
	}
	if given, isMap := r.Start.(map[string]any); isMap {
		if offset, ok := given["offset"]; ok {
			return stream.OffsetSpecification{}.Offset(int64(offset.(float64)))
		}
		return stream.OffsetSpecification{}.Timestamp(int64(given["timestamp"].(float64)))
	}
	switch r.Start {
	case "first":
		return stream.OffsetSpecification{}.First()
	case "last":
		return stream.OffsetSpecification{}.Last()
	default:
		return stream.OffsetSpecification{}.Next()
	}
}

func autoCommit(r *request) *stream.AutoCommitStrategy {
	return stream.NewAutoCommitStrategy().SetCountBeforeStorage(r.Every).SetFlushInterval(time.Minute)
}

func all(*amqp.Message) bool {
	return true
}
