// The program does what the lines on standard input say with go-amqp, and answers each by one line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

const (
	step         = 20 * time.Second
	lineBytesMax = 64 << 20
)

// request is a command with all fields that any of them has.
type request struct {
	Do            string   `json:"do"`
	As            string   `json:"as"`
	Of            string   `json:"of"`
	To            string   `json:"to"`
	Host          string   `json:"host"`
	Port          int      `json:"port"`
	User          string   `json:"user"`
	Password      string   `json:"password"`
	Mechanism     string   `json:"mechanism"`
	Authority     string   `json:"authority"`
	Certificate   string   `json:"certificate"`
	Key           string   `json:"key"`
	Hostname      string   `json:"hostname"`
	IdleTimeoutMs int      `json:"idle_timeout_ms"`
	MaxFrame      uint32   `json:"max_frame"`
	MaxSessions   uint16   `json:"max_sessions"`
	MaxLinks      uint32   `json:"max_links"`
	Address       string   `json:"address"`
	Name          string   `json:"name"`
	Dynamic       bool     `json:"dynamic"`
	Durable       bool     `json:"durable"`
	SenderMode    string   `json:"sender_mode"`
	ReceiverMode  string   `json:"receiver_mode"`
	Credit        int32    `json:"credit"`
	MaxMessage    uint64   `json:"max_message"`
	Selector      string   `json:"selector"`
	Capabilities  []string `json:"capabilities"`
	// Where to begin: a word or an offset.
	Offset  any      `json:"offset"`
	Bodies  []string `json:"bodies"`
	Size    int      `json:"size"`
	Settled bool     `json:"settled"`
	AtOnce  int      `json:"at_once"`
	Count   int      `json:"count"`
	Settle  string   `json:"settle"`
	Names   []string `json:"names"`
	// Of a receiver that stays within its credit: how many messages it holds before it settles them.
	Held int `json:"held"`
}

type answer struct {
	Seen  any    `json:"seen"`
	Error string `json:"error,omitempty"`
	Code  string `json:"code"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<16), lineBytesMax)
	answers := json.NewEncoder(os.Stdout)
	commands := newPeer().commands()
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), step)
		seen, err := commands[asked.Do](ctx, &asked)
		cancel()
		given := answer{Seen: seen}
		if err != nil {
			given = answer{Error: err.Error(), Code: codeOf(err)}
		}
		if err := answers.Encode(given); err != nil {
			panic(err)
		}
	}
}

// codeOf gives the condition that the server told, or what kind of error the client made by itself.
func codeOf(err error) string {
	var told *amqp.Error
	var link *amqp.LinkError
	var session *amqp.SessionError
	var connection *amqp.ConnError
	switch {
	case errors.As(err, &told):
		return string(told.Condition)
	case errors.As(err, &link):
		return "link"
	case errors.As(err, &session):
		return "session"
	case errors.As(err, &connection):
		return "connection"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "too late"
	}
	return ""
}
