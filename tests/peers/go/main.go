// The program does what the lines on standard input say with the Go client, and answers each by one line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

const (
	step         = 20 * time.Second
	lineBytesMax = 64 << 20
)

// request is a command with all fields that any of them has.
type request struct {
	Do             string   `json:"do"`
	As             string   `json:"as"`
	Of             string   `json:"of"`
	To             string   `json:"to"`
	Host           string   `json:"host"`
	Port           int      `json:"port"`
	User           string   `json:"user"`
	Password       string   `json:"password"`
	VHost          string   `json:"vhost"`
	Mechanism      string   `json:"mechanism"`
	Authority      string   `json:"authority"`
	Certificate    string   `json:"certificate"`
	Key            string   `json:"key"`
	Stream         string   `json:"stream"`
	Super          string   `json:"super"`
	Partitions     int      `json:"partitions"`
	Keys           []string `json:"keys"`
	MaxAgeS        int      `json:"max_age_s"`
	MaxLengthBytes int64    `json:"max_length_bytes"`
	SegmentBytes   int64    `json:"segment_bytes"`
	Name           string   `json:"name"`
	Batch          int      `json:"batch"`
	SubEntry       int      `json:"sub_entry"`
	Compression    string   `json:"compression"`
	Filtered       bool     `json:"filtered"`
	Route          string   `json:"route"`
	Recovers       bool     `json:"recovers"`
	Bodies         []string `json:"bodies"`
	FirstID        *int64   `json:"first_id"`
	// Where to begin: a word, or a map from `offset` or `timestamp` to a number. To store: a number.
	Start           any      `json:"offset"`
	Tracking        string   `json:"tracking"`
	Every           int      `json:"every"`
	Group           bool     `json:"group"`
	Filter          []string `json:"filter"`
	MatchUnfiltered bool     `json:"match_unfiltered"`
	Credit          int16    `json:"credit"`
	Count           int      `json:"count"`
}

type answer struct {
	Seen  any    `json:"seen"`
	Error string `json:"error,omitempty"`
	Code  int    `json:"code"`
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
		seen, err := commands[asked.Do](&asked)
		given := answer{Seen: seen}
		if err != nil {
			given = answer{Error: err.Error(), Code: codeOf(err)}
		}
		if err := answers.Encode(given); err != nil {
			panic(err)
		}
	}
}

// codeOf gives the response code of the protocol behind an error, 0 if it says none.
func codeOf(err error) int {
	codes := map[int]error{
		2:  stream.StreamDoesNotExist,
		4:  stream.SubscriptionIdDoesNotExist,
		5:  stream.StreamAlreadyExists,
		6:  stream.StreamNotAvailable,
		8:  stream.AuthenticationFailure,
		12: stream.VirtualHostAccessFailure,
		13: stream.UnknownFrame,
		14: stream.FrameTooLarge,
		15: stream.InternalError,
		16: stream.CodeAccessRefused,
		17: stream.PreconditionFailed,
		18: stream.PublisherDoesNotExist,
		19: stream.OffsetNotFoundError,
	}
	for code, known := range codes {
		if errors.Is(err, known) {
			return code
		}
	}
	return 0
}
