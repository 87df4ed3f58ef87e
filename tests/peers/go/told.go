package main

import (
	"sync"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/ha"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

// told is what the client told by itself, in its order: about whom, what, and of which stream.
type told struct {
	mutex  sync.Mutex
	events [][3]string
}

func (t *told) add(name, event, streamName string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.events = append(t.events, [3]string{name, event, streamName})
}

// closed tells why a producer or a consumer came to its end.
func (t *told) closed(name string, events stream.ChannelClose) {
	for event := range events {
		t.add(name, "closed", event.StreamName)
	}
}

// recovery tells when a producer or a consumer that mends itself has lost its connection, and when it has one again.
func (t *told) recovery(name string, recovering ha.IReliable) {
	was := ha.StatusOpen
	for was != ha.StatusClosed {
		is := recovering.GetStatus()
		if is == ha.StatusReconnecting && was == ha.StatusOpen {
			t.add(name, "recovering", recovering.GetStreamName())
		}
		if is == ha.StatusOpen && was == ha.StatusReconnecting {
			t.add(name, "recovered", recovering.GetStreamName())
		}
		was = is
		time.Sleep(time.Millisecond)
	}
}

// await gives all there is, once there is so much.
func (t *told) await(count int) [][3]string {
	var seen [][3]string
	waitUntil(func() bool {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		seen = append([][3]string{}, t.events...)
		return len(seen) >= count
	})
	return seen
}

// waitUntil returns when it is so, or when a step has taken too long.
func waitUntil(isSo func() bool) {
	for end := time.Now().Add(step); !isSo() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}
