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

// ErrVersion is returned for a strategy file of another version.
var ErrVersion = errors.New("mechanism: strategy of another version")

// wire is the JSON form: the fields of Strategy and the version.
type wire struct {
	Version int `json:"version"`
	*plain
}

// plain is Strategy without its methods.
type plain Strategy

// MarshalJSON writes s with its version. Numbers have as many digits as they need to be read back
// alike.
func (s *Strategy) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{Version, (*plain)(s)})
}

// UnmarshalJSON reads a strategy and validates it. It refuses another version ([ErrVersion]) and
// fields it does not know.
func (s *Strategy) UnmarshalJSON(data []byte) error {
	var head struct{ Version int }
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("mechanism: strategy: %w", err)
	}
	if head.Version != Version {
		return fmt.Errorf("%w: version %d: this program reads version %d", ErrVersion, head.Version, Version)
	}
	var read plain
	if err := strictjson.Unmarshal(data, &wire{plain: &read}); err != nil {
		return fmt.Errorf("mechanism: strategy: %w", err)
	}
	if err := (*Strategy)(&read).Validate(); err != nil {
		return err
	}
	*s = Strategy(read)
	return nil
}

// headSize is the size of a strategy's JSON, in bytes, up to which nothing bounds it.
const headSize = 1 << 16

// maxEntries is how many numbers a strategy is held by at most.
const maxEntries = 1 << 28

// entryBytes is about the size of a number in JSON, with white space around it.
const entryBytes = 40

// ReadStrategy reads one strategy and requires that nothing follows it. A large one must say its
// steps before its numbers, as those that are written by this package do: it is read as far as a
// whole matrix of so many steps reaches.
func ReadStrategy(r io.Reader) (*Strategy, error) {
	head, err := io.ReadAll(io.LimitReader(r, headSize))
	data := head
	if err == nil && strictjson.Foreign(head) == nil && len(head) == headSize {
		n := float64(leadingSteps(head))
		limit := headSize + int64(entryBytes*min(n*(n+1)/2, maxEntries))
		data, err = io.ReadAll(io.LimitReader(io.MultiReader(bytes.NewReader(head), r), limit+1))
		if err == nil && int64(len(data)) > limit {
			err = fmt.Errorf("is longer than a matrix of the steps at its beginning, %.0f", n)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("mechanism: strategy: %w", err)
	}
	if err := strictjson.Foreign(data); err != nil {
		return nil, fmt.Errorf("mechanism: strategy: %w", err)
	}
	s := new(Strategy)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, err
	}
	return s, nil
}

// leadingSteps returns the steps that JSON of a strategy says before its first list, or 0.
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
		return nil, fmt.Errorf("mechanism: workload: %w", err)
	}
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return a, nil
}
