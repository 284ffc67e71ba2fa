package mechanism

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"minsep/internal/strictjson"
)

// Version is the version of the JSON form of a [Strategy].
const Version = 1

// ErrVersion is the error for a strategy file of another version.
var ErrVersion = errors.New("strategy of another version")

// wire is the JSON form: the fields of Strategy and the version.
type wire struct {
	Version int `json:"version"`
	*plain
}

// plain is Strategy without its methods.
type plain Strategy

// headSize is the size in bytes up to which a strategy's JSON is read whatever it says.
const headSize = 1 << 16

// maxEntries is the largest number of entries that hold a strategy: 2 GiB.
const maxEntries = 1 << 28

// entryBytes is about the size of a number in JSON, with white space around it.
const entryBytes = 40

// ReadStrategy reads one strategy and requires that nothing follows it. A large one must have its
// steps before its first list, as this package writes it: no more is read than a whole matrix of so
// many steps takes, so that a hostile file cannot fill the memory.
func ReadStrategy(r io.Reader) (*Strategy, error) {
	head, err := io.ReadAll(io.LimitReader(r, headSize))
	data := head
	if err == nil && strictjson.Foreign(head) == nil && len(head) == headSize {
		n := float64(leadingSteps(head))
		limit := headSize + int64(entryBytes*min(n*(n+1)/2, maxEntries))
		data, err = io.ReadAll(io.LimitReader(io.MultiReader(bytes.NewReader(head), r), limit+1))
		if err == nil && int64(len(data)) > limit {
			err = fmt.Errorf("is longer than a matrix of %.0f steps, the number at its beginning", n)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("strategy: %w", err)
	}
	if err := strictjson.Foreign(data); err != nil {
		return nil, fmt.Errorf("strategy: %w", err)
	}
	s := new(Strategy)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	return s, nil
}

// leadingSteps returns the steps that the JSON of a strategy has before its first list, or 0.
func leadingSteps(head []byte) (steps int) {
	d := json.NewDecoder(bytes.NewReader(head))
	for {
		token, err := d.Token()
		if _, list := token.(json.Delim); err != nil || list && token != json.Delim('{') {
			return 0
		}
		if token == "steps" && d.Decode(&steps) == nil {
			return max(0, min(steps, MaxSteps))
		}
	}
}

// ReadWorkload reads one workload from JSON, refuses fields that it does not know and validates it.
func ReadWorkload(r io.Reader) (*Workload, error) {
	a := new(Workload)
	if err := strictjson.Read(r, a); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return a, nil
}
