package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

// rich gives messages that have every section with every type that the client can write, one for each kind of body.
func rich() []*amqp.Message {
	messages := []*amqp.Message{withSections(), withSections(), withSections(), withSections()}
	messages[0].Data = [][]byte{[]byte("one"), {}, []byte("three")}
	messages[1].Value = everyType()
	messages[2].Sequence = [][]any{{"a", int64(1)}, {true, nil, []byte("b")}}
	messages[3].Value = amqp.Null{}
	messages[3].Properties.MessageID = uint64(1) << 63
	messages[3].Properties.CorrelationID = []byte{0, 255}
	return messages
}

func withSections() *amqp.Message {
	text := func(value string) *string { return &value }
	when := time.UnixMilli(1_700_000_000_123)
	sequence := uint32(1<<32 - 1)
	return &amqp.Message{
		Header:              &amqp.MessageHeader{Durable: true, Priority: 9, TTL: time.Hour, FirstAcquirer: true, DeliveryCount: 3},
		DeliveryAnnotations: amqp.Annotations{"x-opt-hop": "gone at the first"},
		Annotations:         amqp.Annotations{"x-opt-text": "é", "x-opt-number": int64(-1)},
		Properties: &amqp.MessageProperties{
			MessageID:          amqp.UUID{1, 2, 3, 255},
			UserID:             []byte("guest"),
			To:                 text("somewhere"),
			Subject:            text("weather"),
			ReplyTo:            text("back"),
			CorrelationID:      "the one before",
			ContentType:        text("text/plain"),
			ContentEncoding:    text("identity"),
			AbsoluteExpiryTime: &when,
			CreationTime:       &when,
			GroupID:            text("group"),
			GroupSequence:      &sequence,
			ReplyToGroupID:     text("other group"),
		},
		ApplicationProperties: everyType(),
		Footer:                amqp.Annotations{"x-opt-sum": []byte{0, 1, 2}},
	}
}

// everyType has what application properties may hold.
func everyType() map[string]any {
	return map[string]any{
		"null":      nil,
		"true":      true,
		"false":     false,
		"ubyte":     uint8(255),
		"ushort":    uint16(65535),
		"uint":      uint32(1<<32 - 1),
		"uint0":     uint32(0),
		"ulong":     uint64(1<<64 - 1),
		"byte":      int8(-128),
		"short":     int16(-32768),
		"int":       int32(-1 << 31),
		"long":      int64(-1 << 63),
		"float":     float32(1.5),
		"double":    float64(-1e300),
		"timestamp": time.UnixMilli(-1),
		"uuid":      amqp.UUID{255},
		"binary":    []byte{0, 255},
		"empty":     "",
		"string":    "ünïcödé",
		"symbol":    amqp.Symbol("symbol"),
		"long text": strings.Repeat("long ", 60),
	}
}

func sendRich(ctx context.Context, sender *amqp.Sender) error {
	for _, message := range rich() {
		if err := sender.Send(ctx, message, nil); err != nil {
			return err
		}
	}
	return nil
}

// receiveRich gives what differs from what was sent, the offsets that the server gave, and what is left
// of what was meant for the server alone.
func (c *receiving) receiveRich(ctx context.Context) (any, error) {
	differing := []string{}
	left := []any{}
	offsets := []any{}
	for _, sent := range rich() {
		message, err := c.handle.Receive(ctx, nil)
		if err != nil {
			return nil, err
		}
		if err := c.handle.AcceptMessage(ctx, message); err != nil {
			return nil, err
		}
		offsets = append(offsets, message.DeliveryAnnotations["event-streams-offset"])
		if hop, ok := message.DeliveryAnnotations["x-opt-hop"]; ok {
			left = append(left, hop)
		}
		pairs := map[string][2]any{
			"header":                 {sent.Header, message.Header},
			"annotations":            {sent.Annotations, message.Annotations},
			"properties":             {sent.Properties, message.Properties},
			"application properties": {plain(sent.ApplicationProperties), message.ApplicationProperties},
			"data":                   {sent.Data, message.Data},
			"value":                  {plain(sent.Value), plain(message.Value)},
			"sequence":               {sent.Sequence, message.Sequence},
			"footer":                 {sent.Footer, message.Footer},
		}
		for name, pair := range pairs {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				differing = append(differing, fmt.Sprintf("%s: %v came out as %v", name, pair[0], pair[1]))
			}
		}
	}
	return map[string]any{"differing": differing, "offsets": offsets, "left": left}, nil
}

// plain takes from a value what the client has a type of its own for when it writes, and none when it reads.
func plain(value any) any {
	switch value := value.(type) {
	case amqp.Null:
		return nil
	case amqp.Symbol:
		return string(value)
	case map[string]any:
		made := map[string]any{}
		for key, each := range value {
			made[key] = plain(each)
		}
		return made
	}
	return value
}
